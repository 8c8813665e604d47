"""Where the tree does not keep the rules of words.py and names.py yet, and how far it may be off. Temporary.

A ratchet: a number here may only fall. Lower it, or remove the row, with the change that makes it possible; when the
last row is gone, this file goes too. The counts have a little room, since several changes may land at a time.

`plain_words`: markers in 1,000 words, by folder. The others: violations in the whole tree, so that files can be moved.
"""

TODAY = {
    "plain_words": {
        "docs": 3.1,

        "src/api": 11.5,

        "src/delivery": 9.5,



        "src/shard": 9,

        "src/timer": 6.7,
    },
    "purposes": 57,
    "unique_tags": 51,
    "unique_statics": 320,
}
