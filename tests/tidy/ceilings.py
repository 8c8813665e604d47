"""Where the tree does not keep the rules of words.py and names.py yet, and how far it may be off. Temporary.

A ratchet: a number here may only fall. Lower it, or remove the row, with the change that makes it possible; when the
last row is gone, this file goes too. The counts have a little room, since several changes may land at a time.

`plain_words`: markers in 1,000 words, by folder. The others: violations in the whole tree, so that files can be moved.
"""

TODAY = {
    "plain_words": {
        "docs": 4.8,

        "src/api": 20,

        "src/delivery": 20,

        "src/engine": 20,


        "src/shard": 20,

        "src/timer": 20,
    },
    "purposes": 70,
    "unique_tags": 60,
    "unique_statics": 480,
}
