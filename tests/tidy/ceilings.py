"""Where the tree does not keep the rules of words.py and names.py yet, and how far it may be off. Temporary.

A ratchet: a number here may only fall. Lower it, or remove the row, with the change that makes it possible; when the
last row is gone, this file goes too.

`plain_words`: markers in 1,000 words, by folder. The others: violations in the whole tree, so that files can be moved.
"""

TODAY = {
    "plain_words": {
        "docs": 9.2,

        "lib/include": 8.3,

        "lib/src": 9.6,

        "src/api": 10.9,

        "src/base": 7.9,

        "src/calendar": 9.0,

        "src/delivery": 9.4,

        "src/engine": 16.1,

        "src/http": 8.4,

        "src/node": 8.8,

        "src/ops": 7.5,

        "src/shard": 9.0,

        "src/storage": 12.4,

        "src/sys": 12.5,

        "src/timer": 16.1,
    },
    "purposes": 112,
    "unique_tags": 125,
    "unique_statics": 470,
}
