/*
 * Goal: arguments, settings and texts of the command line mean one thing, wrong ones are refused
 * with a reason, and nothing from outside reaches a terminal as a control sequence. Method: tables
 * of good and bad inputs through the functions that the verbs use; every row of the table of verbs.
 */
#include "cli/crontab.h"
#include "cli/broker_list.h"
#include "cli/client.h"
#include "cli/screen.h"
#include "cli/settings.h"
#include "cli/value.h"
#include "cli/verbs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Arguments may be written to. */
#define TEXT(literal) ((char[]){literal})

static enum error_code cli_test_read(const char *verb, char **argv, struct cli_options *options,
                                     struct error *error)
{
    int argc = 0;

    while (argv[argc])
        argc++;
    return cli_options_read(verbs_find(verb), argc, argv, options, error);
}

static void flags_stand_anywhere_in_three_forms(void **state)
{
    (void)state;
    struct cli_options options;
    struct error error;
    char *argv[] = {TEXT("-k"),          TEXT("order"),     TEXT("30m"),
                    TEXT("--label=a:b"), TEXT("-oids"),     TEXT("-"),
                    TEXT("--label"),     TEXT("--colored"), NULL};

    assert_int_equal(cli_test_read("add", argv, &options, &error), ERROR_NONE);
    assert_string_equal(cli_options_value(&options, CLI_FLAG_KEY), "order");
    assert_string_equal(cli_options_value(&options, CLI_FLAG_OUTPUT), "ids");
    assert_null(cli_options_value(&options, CLI_FLAG_URL));
    size_t cursor = 0;
    assert_string_equal(cli_options_next(&options, CLI_FLAG_LABEL, &cursor), "a:b");
    assert_string_equal(cli_options_next(&options, CLI_FLAG_LABEL, &cursor), "--colored");
    assert_null(cli_options_next(&options, CLI_FLAG_LABEL, &cursor));
    assert_int_equal(options.argument_count, 2);
    assert_string_equal(options.arguments[0], "30m");
    assert_string_equal(options.arguments[1], "-");
}

static void the_verb_is_found_among_the_flags(void **state)
{
    (void)state;
    static const struct {
        const char *given[6], *wanted; /* verb first, if there is one */
    } runs[] = {
        {{"get", "id", "-o", "json"}, "get id -o json"},
        {{"-o", "json", "get", "id"}, "get -o json id"},
        {{"-ojson", "--url=a", "get", "--key", "k"}, "get -ojson --url=a --key k"},
        {{"--url", "get", "--yes", "cancel", "id"}, "cancel --url get --yes id"},
        {{"--tok", "list", "list"}, "list --tok list"},
        {{"--help", "add"}, "add --help"},
        {{"--url", "x"}, "--url x"},
        {{"--token"}, "--token"},
        {{"--", "list"}, "list --"},
    };

    for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
        char *argv[8] = {TEXT("tickwheel")};
        struct buffer seen;
        int argc = 1;

        for (size_t j = 0; j < 6 && runs[i].given[j]; j++)
            argv[argc++] = strdup(runs[i].given[j]);
        cli_options_move_verb(argc, argv);
        buffer_init(&seen);
        for (int j = 1; j < argc; j++) {
            buffer_printf(&seen, j > 1 ? " %s" : "%s", argv[j]);
            free(argv[j]);
        }
        assert_string_equal(cli_text(&seen), runs[i].wanted);
        buffer_deinit(&seen);
    }
}

static void durations_become_times(void **state)
{
    (void)state;
    static struct cli_options options;
    struct error error;
    char *argv[] = {TEXT("--due-before"), TEXT("2h"), TEXT("--due-after=-90s"),
                    TEXT("--interval"),   TEXT("2h"), NULL};
    char *others[] = {TEXT("--due-before=2026-01-01T00:00:00Z"), TEXT("--due-after=1893456000010"),
                      NULL};

    assert_int_equal(cli_test_read("list", argv, &options, &error), ERROR_NONE);
    cli_options_settle_times(&options, (struct wall){3600000});
    assert_string_equal(cli_options_value(&options, CLI_FLAG_BEFORE), "1970-01-01T03:00:00.000Z");
    assert_string_equal(cli_options_value(&options, CLI_FLAG_AFTER), "1970-01-01T00:58:30.000Z");
    assert_string_equal(cli_options_value(&options, CLI_FLAG_INTERVAL), "2h");
    cli_options_settle_times(&options, (struct wall){0});
    assert_string_equal(cli_options_value(&options, CLI_FLAG_BEFORE), "1970-01-01T03:00:00.000Z");
    assert_int_equal(cli_test_read("list", others, &options, &error), ERROR_NONE);
    cli_options_settle_times(&options, (struct wall){0});
    assert_string_equal(cli_options_value(&options, CLI_FLAG_BEFORE), "2026-01-01T00:00:00Z");
    assert_string_equal(cli_options_value(&options, CLI_FLAG_AFTER), "1893456000010");
    assert_int_equal(cli_test_read("list", argv, &options, &error), ERROR_NONE);
    cli_options_settle_times(&options, (struct wall){1});
    assert_string_equal(cli_options_value(&options, CLI_FLAG_AFTER), "1970-01-01T00:00:00.000Z");
    for (size_t i = 0; i < 2; i++) { /* what is asked about has ended: never a time to come */
        char *since[] = {TEXT("--since"), i ? TEXT("-1h") : TEXT("1h"), NULL};

        assert_int_equal(cli_test_read("log", since, &options, &error), ERROR_NONE);
        cli_options_settle_times(&options, (struct wall){7200000});
        assert_string_equal(cli_options_value(&options, CLI_FLAG_SINCE),
                            "1970-01-01T01:00:00.000Z");
    }
}

static void flags_may_be_cut_short_while_unique(void **state)
{
    (void)state;
    struct cli_options options;
    struct error error;

    assert_int_equal(cli_test_read("add", (char *[]){TEXT("--pay=1"), TEXT("1s"), TEXT("x"), NULL},
                                   &options, &error),
                     ERROR_NONE);
    assert_string_equal(cli_options_value(&options, CLI_FLAG_PAYLOAD), "1");
    assert_int_equal(cli_test_read("add", (char *[]){TEXT("--on-=1"), TEXT("1s"), TEXT("x"), NULL},
                                   &options, &error),
                     ERROR_INVALID);
}

static void wrong_arguments_are_refused_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *verb;
        const char *arguments[4];
        const char *reason;
    } wrong[] = {
        {"add", {"--nosuch", "x"}, "--nosuch is no flag of \"add\""},
        {"list", {"--lable=a:b"}, "--lable is no flag of \"list\": did you mean --label?"},
        {"get", {"--ulr=x"}, "did you mean --url?"},
        {"add", {"-Z", "x"}, "-Z is no flag"},
        {"change", {"--att=1", "x"}, "several flags of \"change\": --attempts --attempt-timeout"},
        {"change", {"--at=1", "x"}, "--attempts --attempt-timeout; the time is --when WHEN"},
        {"change", {"--after=1h", "x"}, "no flag of \"change\"; the time is --when WHEN"},
        {"add", {"--when=1h", "x"}, "the time is the argument WHEN"},
        {"touch", {"--after=1h", "x"}, "the time is the argument WHEN"},
        {"add", {"1s", "x", "--key"}, "--key needs a value: KEY"},
        {"add", {"1s", "x", "--replace=yes"}, "takes no value"},
        {"list", {"-o", "xml"}, "table json ids"},
        {"list", {"x"}, "too many arguments for \"list\""},
        {"complete", {NULL}, "too few"},
        {"add", {"1", "2", "3"}, "too many"},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct cli_options options;
        struct error error;
        char *argv[5] = {NULL};
        for (size_t j = 0; j < 4 && wrong[i].arguments[j]; j++)
            argv[j] = strdup(wrong[i].arguments[j]);
        assert_int_equal(cli_test_read(wrong[i].verb, argv, &options, &error), ERROR_INVALID);
        if (!strstr(error.text, wrong[i].reason))
            fail_msg("\"%s\" should say \"%s\"", error.text, wrong[i].reason);
        for (size_t j = 0; j < 4; j++)
            free(argv[j]);
    }
}

/* proves: cli-arguments, cli-flags */
static void the_number_of_flags_and_arguments_is_bounded(void **state)
{
    (void)state;
    static struct cli_options options;
    char **argv = calloc(CLI_ARGUMENTS_MAX + 2, sizeof(*argv));
    char argument[] = "x", flag[] = "-y";
    struct error error;

    for (size_t i = 0; i <= CLI_ARGUMENTS_MAX; i++)
        argv[i] = argument;
    assert_int_equal(cli_test_read("cancel", argv, &options, &error), ERROR_INVALID);
    argv[CLI_ARGUMENTS_MAX] = NULL;
    assert_int_equal(cli_test_read("cancel", argv, &options, &error), ERROR_NONE);
    for (size_t i = 0; i <= CLI_FLAGS_MAX; i++)
        argv[i] = flag;
    argv[CLI_FLAGS_MAX + 1] = NULL;
    assert_int_equal(cli_test_read("cancel", argv, &options, &error), ERROR_INVALID);
    argv[CLI_FLAGS_MAX] = NULL;
    assert_int_equal(cli_test_read("cancel", argv, &options, &error), ERROR_NONE);
    free(argv);
}

/* Help, completion and manual rely on this. */
static void every_verb_is_described(void **state)
{
    (void)state;
    for (size_t i = 0; i < CLI_VERB_COUNT; i++) {
        const struct cli_verb *verb = &CLI_VERBS[i];
        bool used[CLI_FLAG_COUNT] = {false};

        assert_ptr_equal(verbs_find(verb->name), verb);
        assert_non_null(strstr(verb->examples, verb->name));
        assert_true(verb->summary[strlen(verb->summary) - 1] != '.');
        for (const struct cli_flag_use *use = verb->uses; use->meaning; use++) {
            if (used[use->flag])
                fail_msg("%s has --%s twice", verb->name, cli_flag_row(use->flag)->name);
            used[use->flag] = true;
            for (const struct cli_flag_use *other = verb->uses; other < use; other++)
                if (cli_flag_row(other->flag)->letter &&
                    cli_flag_row(other->flag)->letter == cli_flag_row(use->flag)->letter)
                    fail_msg("%s has -%c twice", verb->name, cli_flag_row(use->flag)->letter);
        }
    }
}

static void a_config_file_is_read(void **state)
{
    (void)state;
    struct cli_settings settings = {0};
    struct error error;

    assert_int_equal(cli_settings_read(&settings,
                                       BYTES("# mine\n\n url = https://a.example:1/\n"
                                             "token=tw_a=b\noutput = json"),
                                       "config", &error),
                     ERROR_NONE);
    assert_string_equal(settings.url, "https://a.example:1");
    assert_string_equal(settings.token, "tw_a=b");
    assert_int_equal(settings.form, CLI_FORM_JSON);
    assert_int_equal(cli_settings_set(&settings, CLI_SETTING_URL, BYTES("localhost:8463"), &error),
                     ERROR_NONE);
    assert_string_equal(settings.url, "http://localhost:8463");
}

static void a_wrong_config_file_names_the_line_and_no_secret(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "nothing",
        "url",
        "url =",
        "url = ftp://a",
        "url = http://u:secret@a/",
        "token = a secret",
        "token =",
        "output = x",
        "secret = 1",
        "url = http://a/?secret",
        "url = https:///",
        "\x01 = 1",
        "url = a b",
        "url = http://a\x1b",
        "url=http://a#b",
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct cli_settings settings = {0};
        struct buffer text;
        struct error error;

        buffer_init(&text);
        buffer_append_text(&text, "# one\n");
        buffer_append_text(&text, wrong[i]);
        if (cli_settings_read(&settings, buffer_bytes(&text), "config", &error) != ERROR_INVALID)
            fail_msg("accepted: %s", wrong[i]);
        assert_non_null(strstr(error.text, "config, line 2: "));
        assert_null(strstr(error.text, "secret"));
        buffer_deinit(&text);
    }
}

static void cli_test_screen(const char *text, size_t size, const char *expected)
{
    struct buffer out;

    buffer_init(&out);
    screen_append(&out, (struct bytes){text, size});
    buffer_append(&out, "", 1);
    assert_string_equal(out.data, expected);
    buffer_deinit(&out);
}

static void control_characters_are_shown(void **state)
{
    (void)state;
#define SHOWS(text, expected) cli_test_screen(text, sizeof(text) - 1, expected)
    SHOWS("plain \xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80",
          "plain \xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80");
    SHOWS("\x1b[31mred\x1b]0;title\x07", "\\u001b[31mred\\u001b]0;title\\u0007");
    SHOWS("a\nb\rc\td\0e\x7f", "a\\u000ab\\u000dc\\u0009d\\u0000e\\u007f");
    SHOWS("\xc2\x9b"
          "31m",
          "\\u009b31m"); /* C1: an escape sequence in one character */
    SHOWS("\xe2\x80\xae"
          "abc",
          "\\u202eabc");
    SHOWS("\x9b"
          "31m\xff\xc3",
          "\xef\xbf\xbd"
          "31m\xef\xbf\xbd\xef\xbf\xbd");
#undef SHOWS
}

static void json_stands_on_one_line(void **state)
{
    (void)state;
    struct buffer out;

    buffer_init(&out);
    screen_append_json(&out, BYTES("{\n  \"a\": \"\x7f\",\r\n\t\"b\":1 }\n"));
    buffer_append(&out, "", 1);
    assert_string_equal(out.data, "{ \"a\": \"\\u007f\", \"b\":1 }");
    buffer_deinit(&out);
}

static void tables_are_aligned(void **state)
{
    (void)state;
    static const char *const cells[] = {
        "A",
        "BB",
        "C",
        "\xc3\xbc\xc3\xbc\xc3\xbc",
        "",
        "x",
        "0123456789012345678901234567890123456789012345678901234567890",
        "b",
        ""};
    struct screen_table table;
    struct buffer out;

    screen_table_init(&table, 3);
    buffer_init(&out);
    for (size_t i = 0; i < 9; i++)
        screen_table_add(&table, SCREEN_RED, bytes_of(cells[i]));
    screen_table_append(&table, SCREEN_STYLE_PLAIN, &out);
    buffer_append(&out, "", 1);
    assert_string_equal(
        out.data, "A                                                 BB  C\n"
                  "\xc3\xbc\xc3\xbc\xc3\xbc                                                   x\n"
                  "01234567890123456789012345678901234567890123456\xe2\x80\xa6  b\n");
    struct buffer ascii;
    buffer_init(&ascii);
    screen_append_ascii(&ascii, buffer_bytes(&out));
    assert_non_null(strstr(ascii.data, "3456~  b\n"));
    assert_non_null(strstr(ascii.data, "\xc3\xbc\xc3\xbc\xc3\xbc   "));
    buffer_deinit(&ascii);
    buffer_deinit(&out);
    screen_table_deinit(&table);
}

static void bars_have_as_many_places_in_ascii(void **state)
{
    static const struct {
        uint64_t value;
        const char *bar;
    } rows[] = {{0, ""}, {1, "-"}, {20, "#"}, {6, "-"}, {15, "#"}, {26, "#-"}, {100, "#####"}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct buffer bar, ascii;

        buffer_init(&bar);
        buffer_init(&ascii);
        screen_append_bar(&bar, rows[i].value, 20 * SCREEN_BAR_WIDTH);
        screen_append_ascii(&ascii, buffer_bytes(&bar));
        buffer_append(&ascii, "", 1);
        assert_string_equal(ascii.data, rows[i].bar);
        assert_int_equal(screen_width(buffer_bytes(&bar)), strlen(rows[i].bar));
        buffer_deinit(&bar);
        buffer_deinit(&ascii);
    }
}

static void distances_are_rounded(void **state)
{
    (void)state;
    static const struct {
        uint64_t ms;
        const char *text;
    } distances[] = {
        {0, "now"},
        {999, "in 999ms"},
        {2932, "in 3s"},
        {572400, "in 9m32s"},
        {1799996, "in 30m"},
        {35990000, "in 10h"},
        {36000000, "in 10h"},
        {90000000, "in 1d1h"},
        {863999999, "in 10d"},
        {8640000000, "in 100d"},
    };

    for (size_t i = 0; i < sizeof(distances) / sizeof(*distances); i++) {
        struct buffer out;

        buffer_init(&out);
        screen_append_distance(&out, (struct wall){5}, (struct wall){5 + distances[i].ms});
        buffer_append(&out, "", 1);
        assert_string_equal(out.data, distances[i].text);
        buffer_deinit(&out);
    }
}

static void members_are_found(void **state)
{
    (void)state;
    struct bytes text =
        BYTES("{\"a\":{\"b\":[1, \"x\\ny\", {}]},\"\\u0063\":12345678901234567890123}");
    struct bytes array = cli_member(cli_member(text, "a"), "b"), value;
    struct cli_list list;
    struct buffer out;

    buffer_init(&out);
    assert_true(bytes_equal(cli_member(text, "c"), BYTES("12345678901234567890123")));
    assert_int_equal(cli_member(text, "d").size, 0);
    assert_int_equal(cli_member(array, "a").size, 0);
    cli_list_init(&list, array);
    assert_true(cli_list_next(&list, &value));
    assert_int_equal(cli_number(value, 7), 1);
    assert_true(cli_list_next(&list, &value));
    assert_int_equal(cli_number(value, 7), 7);
    cli_append_value(&out, value);
    assert_true(bytes_equal(buffer_bytes(&out), BYTES("x\ny")));
    assert_true(cli_list_next(&list, &value));
    assert_false(cli_list_next(&list, &value));
    cli_list_init(&list, text);
    assert_false(cli_list_next(&list, &value));
    buffer_deinit(&out);
}

static void brokers_of_a_list_have_hosts_and_no_secrets(void **state)
{
    static const struct {
        const char *name, *hosts;
        uint16_t port;
    } rows[] = {{"a", "h:1", 6379}, {"b", "h,i:2,[::1]:3", 9092}, {"c", "j", 5671}, {"d", "k", 0}};
    struct bytes list =
        BYTES("a=redis://u:p@h:1/0\n# x=redis://no\n b=kafka://h,i:2,[::1]:3?a=b@c\t"
              "none d=redis: e=redis:// =redis://no c=amqps://x@y@j d=other://k ");
    struct listed_broker broker;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        assert_true(broker_list_next(&list, &broker));
        assert_true(bytes_equal(broker.name, bytes_of(rows[i].name)));
        assert_true(bytes_equal(broker.hosts, bytes_of(rows[i].hosts)));
        assert_int_equal(broker.port, rows[i].port);
    }
    assert_false(broker_list_next(&list, &broker));
}

static void a_crontab_is_read_as_cron_reads_it(void **state)
{
    static const struct {
        enum crontab_step step;
        const char *schedule, *command, *input; /* or what is wrong, in `command` */
    } rows[] = {
        {CRONTAB_EMPTY, NULL, NULL, NULL},
        {CRONTAB_EMPTY, NULL, NULL, NULL},
        {CRONTAB_ENTRY, "*/5 9-17 * JAN MON-FRI", "run  it", NULL},
        {CRONTAB_ENTRY, "@daily", "mail", "Hello\n\nyou\n"},
        {CRONTAB_ENTRY, "0 0 1 * 7", "date +%d = x", NULL},
        {CRONTAB_WRONG, NULL, "@reboot is no time", NULL},
        {CRONTAB_WRONG, NULL, "there are fewer than five fields", NULL},
        {CRONTAB_WRONG, NULL, "there is no command", NULL},
        {CRONTAB_WRONG, NULL, "the line is not UTF-8, as JSON asks", NULL},
        {CRONTAB_END, NULL, NULL, NULL},
    };
    struct crontab crontab = {
        .rest = BYTES("  # a comment\n\tNAME = 'a b' \r\n*/5  9-17 * JAN\tMON-FRI  run  it\n"
                      "@daily mail%Hello%%you\n0 0 1 * 7 date +\\%d = x\n@reboot x\n* * * x\n"
                      "* * * * * \n* * * * * \xff")};
    struct crontab_entry entry = {0};
    struct error error;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        assert_int_equal(crontab_next(&crontab, &entry, &error), rows[i].step);
        if (rows[i].step == CRONTAB_WRONG)
            assert_string_equal(error.text, rows[i].command);
        if (rows[i].step != CRONTAB_ENTRY)
            continue;
        assert_true(bytes_equal(buffer_bytes(&entry.schedule), bytes_of(rows[i].schedule)));
        assert_true(bytes_equal(buffer_bytes(&entry.command), bytes_of(rows[i].command)));
        assert_int_equal(entry.has_input, rows[i].input != NULL);
        if (rows[i].input)
            assert_true(bytes_equal(buffer_bytes(&entry.input), bytes_of(rows[i].input)));
    }
    assert_true(bytes_equal(crontab_variable(&crontab, "NAME"), BYTES("a b")));
    assert_int_equal(crontab_variable(&crontab, "OTHER").size, 0);
    crontab_entry_deinit(&entry);
}

int main(void)
{
#define TEST(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        TEST(flags_stand_anywhere_in_three_forms),
        TEST(the_verb_is_found_among_the_flags),
        TEST(durations_become_times),
        TEST(flags_may_be_cut_short_while_unique),
        TEST(wrong_arguments_are_refused_with_a_reason),
        TEST(the_number_of_flags_and_arguments_is_bounded),
        TEST(every_verb_is_described),
        TEST(bars_have_as_many_places_in_ascii),
        TEST(a_config_file_is_read),
        TEST(a_wrong_config_file_names_the_line_and_no_secret),
        TEST(control_characters_are_shown),
        TEST(json_stands_on_one_line),
        TEST(tables_are_aligned),
        TEST(distances_are_rounded),
        TEST(members_are_found),
        cmocka_unit_test(brokers_of_a_list_have_hosts_and_no_secrets),
        cmocka_unit_test(a_crontab_is_read_as_cron_reads_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
