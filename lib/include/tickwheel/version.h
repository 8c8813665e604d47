/*
 * version.h - the version of the library: of the headers, and of the library that runs.
 *
 * They differ when a program runs with another shared library than it was compiled with. Before
 * 1.0.0 each minor version may change the interface, and is another library to the linker
 * (libtickwheel.so.0.2); from then on each major version is.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_VERSION_H
#define TICKWHEEL_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the headers. */
#define TW_VERSION "0.2.0"

/* The version of the library that runs, in the form of TW_VERSION. */
const char *tw_version(void);

#ifdef __cplusplus
}
#endif

#endif
