/*
 * apply_fingerprint.h - what a document is known by after it was applied, when the daemon does not
 * show all of it: its secrets, or the text of a calendar.
 *
 * Who may list owners reads fingerprints. So each has a salt, and that of a document with secrets
 * takes long to compute: guesses at a weak secret cost as much.
 *
 * Errors     False if the kernel or the library has none to give.
 * Threads    Any.
 */
#ifndef TICKWHEEL_CLI_APPLY_FINGERPRINT_H
#define TICKWHEEL_CLI_APPLY_FINGERPRINT_H

#include "base/bytes.h"

#define APPLY_FINGERPRINT_SIZE 49 /* digits of the salt and of the hash, and a NUL */

enum apply_secrecy {
    APPLY_OPEN,   /* without secrets */
    APPLY_SECRET, /* with secrets */
};

bool apply_fingerprint_make(struct bytes document, enum apply_secrecy secrecy,
                            char ret_text[APPLY_FINGERPRINT_SIZE]);

/* True if the fingerprint is that of the document. */
bool apply_fingerprint_is(struct bytes fingerprint, struct bytes document,
                          enum apply_secrecy secrecy);

#endif
