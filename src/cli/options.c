/* options.c - arguments of the command line, read by the row of a verb. */
#include "cli/options.h"

#include "base/nearest.h"
#include "calendar/duration.h"
#include "cli/verbs.h"

static const struct cli_flag CLI_FLAGS[] = {
#define FLAG(id, name, letter, value, choices) {name, letter, value, choices},
#include "cli/verbs.def"
};

const struct cli_flag_use CLI_FLAGS_COMMON[] = {
    {CLI_FLAG_URL, "the daemon, http://127.0.0.1:8463 by default"},
    {CLI_FLAG_CONTEXT, "the daemon, token and certificates of this name (tickwheel context)"},
    {CLI_FLAG_TOKEN, "the token; better in TICKWHEEL_TOKEN or a file"},
    {CLI_FLAG_TOKEN_FILE, "a file with the token"},
    {CLI_FLAG_CA_FILE,
     "PEM file of the authorities to trust, for https; those of the system by default"},
    {CLI_FLAG_CLIENT_CERT, "PEM file of the certificate to show, for https"},
    {CLI_FLAG_CLIENT_KEY, "PEM file of its key, unless it is in the same file"},
    {CLI_FLAG_OUTPUT, "how results are printed; json is a document on each line"},
    {CLI_FLAG_COLOR, "colours; auto is on a terminal without NO_COLOR"},
    {CLI_FLAG_TIMEOUT, "how long to wait for an answer, 60s by default"},
    {CLI_FLAG_HELP, "show this help"},
    {CLI_FLAG_COUNT, NULL},
};

const struct cli_flag *cli_flag_row(enum cli_flag_id flag)
{
    return &CLI_FLAGS[flag];
}

/* Looks for a flag among `uses`. An exact name has precedence over an abbreviation, which must be
 * unique. Returns how many flags match. */
static unsigned options_find_in(const struct cli_flag_use *uses, struct bytes name,
                                enum cli_flag_id *ret_flag, bool *is_exact)
{
    unsigned fitting = 0;

    for (; uses->meaning && !*is_exact; uses++) {
        struct bytes full = bytes_of(CLI_FLAGS[uses->flag].name);

        if (!name.size || !bytes_has_prefix(full, name))
            continue;
        *is_exact = full.size == name.size;
        *ret_flag = uses->flag;
        fitting++;
    }
    return *is_exact ? 1 : fitting;
}

/* Returns where a verb expects its time, for users who give the `at` or `after` of the API as a
 * flag; "" for other flags. */
static const char *options_place_of_time(const struct cli_verb *verb, struct bytes name)
{
    if (!bytes_equal(name, BYTES("at")) && !bytes_equal(name, BYTES("after")) &&
        !bytes_equal(name, BYTES("when")))
        return "";
    for (const struct cli_flag_use *use = verb->uses; use->meaning; use++)
        if (use->flag == CLI_FLAG_WHEN)
            return "; the time is --when WHEN";
    return strstr(verb->arguments, "WHEN") ? "; the time is the argument WHEN" : "";
}

/* Appends the flag whose name is nearest to the misspelt one. */
static void options_append_nearest(const struct cli_verb *verb, struct bytes name,
                                   struct buffer *text)
{
    const struct cli_flag_use *const lists[] = {verb->uses, CLI_FLAGS_COMMON};
    struct nearest nearest = nearest_to(name);

    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
        for (const struct cli_flag_use *use = lists[i]; use->meaning; use++)
            nearest_try(&nearest, CLI_FLAGS[use->flag].name);
    if (nearest.name)
        buffer_printf(text, ": did you mean --%s?", nearest.name);
}

/* Appends the flags that begin with the name. */
static void options_append_fitting(const struct cli_flag_use *uses, struct bytes name,
                                   struct buffer *text)
{
    for (; uses->meaning; uses++)
        if (bytes_has_prefix(bytes_of(CLI_FLAGS[uses->flag].name), name))
            buffer_printf(text, " --%s", CLI_FLAGS[uses->flag].name);
}

static enum error_code options_refuse(const struct cli_verb *verb, struct bytes name,
                                      unsigned fitting, struct error *ret_error)
{
    const char *place = options_place_of_time(verb, name);
    struct buffer text;

    buffer_init(&text);
    buffer_printf(&text,
                  fitting ? "may be one of several flags of \"%s\":" : "is no flag of \"%s\"",
                  verb->name);
    if (fitting) {
        options_append_fitting(verb->uses, name, &text);
        options_append_fitting(CLI_FLAGS_COMMON, name, &text);
    } else if (!*place) {
        options_append_nearest(verb, name, &text);
    }
    const struct bytes words = buffer_bytes(&text);
    error_set(ret_error, ERROR_INVALID, "--%.*s %.*s%s", (int)name.size, name.data, (int)words.size,
              words.data, place);
    buffer_deinit(&text);
    return ERROR_INVALID;
}

static enum error_code options_find(const struct cli_verb *verb, struct bytes name,
                                    enum cli_flag_id *ret_flag, struct error *ret_error)
{
    bool is_exact = false;
    enum cli_flag_id own = CLI_FLAG_COUNT, common = CLI_FLAG_COUNT;
    unsigned fitting = options_find_in(verb->uses, name, &own, &is_exact);
    unsigned fitting_common =
        is_exact ? 0 : options_find_in(CLI_FLAGS_COMMON, name, &common, &is_exact);

    if (is_exact || fitting + fitting_common == 1) {
        *ret_flag = fitting_common && (is_exact || !fitting) ? common : own;
        return ERROR_NONE;
    }
    return options_refuse(verb, name, fitting + fitting_common, ret_error);
}

static bool options_find_letter(const struct cli_flag_use *uses, char letter,
                                enum cli_flag_id *ret_flag)
{
    for (; uses->meaning; uses++)
        if (CLI_FLAGS[uses->flag].letter == letter) {
            *ret_flag = uses->flag;
            return true;
        }
    return false;
}

/* True if `value` is among the choices. */
static bool options_is_choice(const char *choices, const char *value)
{
    struct bytes rest = bytes_of(choices), word;

    while (bytes_next_word(&rest, &word))
        if (bytes_equal(word, bytes_of(value)))
            return true;
    return false;
}

static enum error_code options_add(struct cli_options *options, enum cli_flag_id flag, char *value,
                                   struct error *ret_error)
{
    const struct cli_flag *row = &CLI_FLAGS[flag];

    if (options->given_count == CLI_FLAGS_MAX)
        return error_set(ret_error, ERROR_INVALID, "there are more than %d flags", CLI_FLAGS_MAX);
    if (value && row->choices && !options_is_choice(row->choices, value))
        return error_set(ret_error, ERROR_INVALID, "--%s takes one of: %s", row->name,
                         row->choices);
    options->given[options->given_count++] = (struct cli_option){.flag = flag, .value = value};
    return ERROR_NONE;
}

/* Reads the flag argv[*at]. If it needs a value that is not in it, the next argument is the
 * value. */
static enum error_code options_read_flag(const struct cli_verb *verb, int argc, char **argv,
                                         int *at, struct cli_options *options,
                                         struct error *ret_error)
{
    char *text = argv[*at], *value = NULL;
    enum cli_flag_id flag = CLI_FLAG_COUNT;

    if (text[1] == '-') {
        char *equals = strchr(text, '=');
        struct bytes name = {text + 2, equals ? (size_t)(equals - text - 2) : strlen(text + 2)};
        enum error_code code = options_find(verb, name, &flag, ret_error);

        if (code)
            return code;
        value = equals ? equals + 1 : NULL;
    } else {
        if (!options_find_letter(verb->uses, text[1], &flag) &&
            !options_find_letter(CLI_FLAGS_COMMON, text[1], &flag))
            return error_set(ret_error, ERROR_INVALID, "-%c is no flag of \"%s\"", text[1],
                             verb->name);
        value = text[2] ? text + 2 : NULL;
    }

    const struct cli_flag *row = &CLI_FLAGS[flag];
    if (!row->value && value)
        return error_set(ret_error, ERROR_INVALID, "--%s takes no value", row->name);
    if (row->value && !value) {
        if (*at + 1 == argc)
            return error_set(ret_error, ERROR_INVALID, "--%s needs a value: %s", row->name,
                             row->value);
        value = argv[++*at];
    }
    return options_add(options, flag, value, ret_error);
}

/* True if the argument is a flag. A single dash means standard input; a dash and a digit are a
 * number. */
static bool options_is_flag(const char *argument)
{
    return argument[0] == '-' && argument[1] != '\0' && !(argument[1] >= '0' && argument[1] <= '9');
}

/* True if the argument is a flag, of any verb, whose value is the next argument. */
static bool options_wants_next(const char *argument)
{
    const bool is_name = argument[1] == '-';
    const struct bytes name = bytes_of(argument + 2);

    if (name.size && (!is_name || memchr(name.data, '=', name.size)))
        return false;
    for (size_t i = 0; i < CLI_FLAG_COUNT; i++)
        if (is_name ? name.size && bytes_has_prefix(bytes_of(CLI_FLAGS[i].name), name)
                    : CLI_FLAGS[i].letter == argument[1])
            return CLI_FLAGS[i].value != NULL;
    return false;
}

void cli_options_move_verb(int argc, char **argv)
{
    int at = 1;

    while (at < argc && options_is_flag(argv[at]))
        at += options_wants_next(argv[at]) ? 2 : 1;
    if (at >= argc)
        return;
    char *verb = argv[at];
    memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof(*argv));
    argv[1] = verb;
}

enum error_code cli_options_read(const struct cli_verb *verb, int argc, char **argv,
                                 struct cli_options *ret_options, struct error *ret_error)
{
    bool is_command = false;

    ret_options->given_count = ret_options->argument_count = 0;
    ret_options->command = SIZE_MAX;
    for (int i = 0; i < argc; i++) {
        bool is_flag = !is_command && options_is_flag(argv[i]);

        if (is_flag && strcmp(argv[i], "--") == 0) {
            is_command = true;
            ret_options->command = ret_options->argument_count;
        } else if (is_flag) {
            enum error_code code = options_read_flag(verb, argc, argv, &i, ret_options, ret_error);
            if (code)
                return code;
        } else if (ret_options->argument_count == CLI_ARGUMENTS_MAX) {
            return error_set(ret_error, ERROR_INVALID, "there are more than %d arguments",
                             CLI_ARGUMENTS_MAX);
        } else {
            ret_options->arguments[ret_options->argument_count++] = argv[i];
        }
    }
    ret_options->arguments[ret_options->argument_count] = NULL;
    if (ret_options->command > ret_options->argument_count)
        ret_options->command = ret_options->argument_count;
    if (cli_options_value(ret_options, CLI_FLAG_HELP))
        return ERROR_NONE;
    if (ret_options->argument_count < verb->arguments_min ||
        ret_options->argument_count > verb->arguments_max)
        return error_set(ret_error, ERROR_INVALID, "%s arguments for \"%s%s%s\"",
                         ret_options->argument_count < verb->arguments_min ? "too few" : "too many",
                         verb->name, *verb->arguments ? " " : "", verb->arguments);
    return ERROR_NONE;
}

void cli_options_settle_times(struct cli_options *options, struct wall now)
{
    for (size_t i = 0; i < options->given_count; i++) {
        struct cli_option *option = &options->given[i];
        const char *value = CLI_FLAGS[option->flag].value;
        const bool has_dash = value && *option->value == '-';
        const bool is_past = has_dash || option->flag == CLI_FLAG_SINCE;
        uint64_t ms;

        if (!value || strcmp(value, "TIME") != 0 ||
            duration_parse(bytes_of(option->value + has_dash), &ms, NULL) != ERROR_NONE)
            continue;
        const uint64_t past = now.ms > ms ? now.ms - ms : 0;
        rfc3339_format(is_past ? (struct wall){past} : wall_add(now, ms), option->time);
        option->value = option->time;
    }
}

const char *cli_options_value(const struct cli_options *options, enum cli_flag_id flag)
{
    for (size_t i = options->given_count; i > 0; i--)
        if (options->given[i - 1].flag == flag)
            return options->given[i - 1].value ? options->given[i - 1].value : "";
    return NULL;
}

const char *cli_options_next(const struct cli_options *options, enum cli_flag_id flag,
                             size_t *cursor)
{
    while (*cursor < options->given_count) {
        const struct cli_option *option = &options->given[(*cursor)++];

        if (option->flag == flag)
            return option->value ? option->value : "";
    }
    return NULL;
}
