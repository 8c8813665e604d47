/* verbs.c - the table of verbs, from verbs.def. */
#include "cli/verbs.h"

#define USE(flag, meaning) {CLI_FLAG_##flag, meaning},

const struct cli_verb CLI_VERBS[] = {
#define VERB(run, name, arguments, least, most, summary, about, examples, flags)               \
    {name,    arguments, least,    most,                                                       \
     summary, about,     examples, (const struct cli_flag_use[]){flags{CLI_FLAG_COUNT, NULL}}, \
     run},
#include "cli/verbs.def"
};

const size_t CLI_VERB_COUNT = sizeof(CLI_VERBS) / sizeof(*CLI_VERBS);

const struct cli_verb *verbs_find(const char *name)
{
    for (size_t i = 0; i < CLI_VERB_COUNT; i++)
        if (strcmp(CLI_VERBS[i].name, name) == 0)
            return &CLI_VERBS[i];
    return NULL;
}
