/* version.c - the version that was compiled in. */
#include <tickwheel/version.h>

const char *tw_version(void)
{
    return TW_VERSION;
}
