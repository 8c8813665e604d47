/* verbs.c - the table of verbs. */
#include "cli/verbs.h"

#define VERBS_END            \
    {                        \
        CLI_FLAG_COUNT, NULL \
    }

/* The fields of a timer, for add and change. */
#define VERBS_FIELDS                                                                               \
    {CLI_FLAG_PAYLOAD, "the payload: JSON, @FILE with JSON, or - for standard input"},             \
        {CLI_FLAG_BODY, "in its place any text, @FILE, or -; see --content-type"},                 \
        {CLI_FLAG_CONTENT_TYPE, "the type of --body"},                                             \
        {CLI_FLAG_LABEL, "a label; may be repeated"},                                              \
        {CLI_FLAG_METHOD, "the method of the webhook, POST by default"},                           \
        {CLI_FLAG_HEADER, "a further header of the webhook; may be repeated"},                     \
        {CLI_FLAG_EVENT, "an event that ends the timer; may be repeated"},                         \
        {CLI_FLAG_CRON, "repeat by a cron expression"}, {CLI_FLAG_EVERY, "repeat at an interval"}, \
        {CLI_FLAG_ZONE, "the time zone of --cron, as Europe/Berlin; UTC by default"},              \
        {CLI_FLAG_DST, "firings when clocks are changed"},                                         \
        {CLI_FLAG_NUMBER, "with --every: firings in all"},                                         \
        {CLI_FLAG_UNTIL, "the latest time of its last firing"},                                    \
        {CLI_FLAG_ATTEMPTS, "attempts to deliver, 10 by default"},                                 \
        {CLI_FLAG_ATTEMPT_TIMEOUT, "time for an attempt, 15s by default"},                         \
        {CLI_FLAG_GIVE_UP_AFTER, "give up when the target fails so long, 3d by default"},          \
        {CLI_FLAG_DROP_AFTER, "do not fire when later than this"},                                 \
        {CLI_FLAG_SPREAD, "move firings by a part of this window, which follows from the key"},    \
        {CLI_FLAG_ON_DEAD, "a target that is told when the timer is given up"},                    \
        {CLI_FLAG_ON_SUCCESS, "a target that is told when it has fired"},                          \
    {                                                                                              \
        CLI_FLAG_SET, "any other field of the API; may be repeated"                                \
    }

#define VERBS_WHEN                                                     \
    "WHEN is a duration (90s, 1h30m, 2d; units w d h m s ms), a time " \
    "(2026-12-24T18:00:00+01:00),\n"                                   \
    "or now."

#define VERBS_TARGETS                                                                           \
    "TARGET is a URL that gets a webhook, queue:NAME for workers, log:NAME for a line of the\n" \
    "daemon's output, or a destination at a message broker (docs/brokers.md)."

static const struct cli_flag_use verbs_none[] = {VERBS_END};

static const struct cli_flag_use verbs_add[] = {
    {CLI_FLAG_KEY, "your own name for the timer; at most one live timer has it"},
    {CLI_FLAG_REPLACE, "with --key: replace the timer of that key"},
    {CLI_FLAG_IDEMPOTENCY_KEY, "a name of this request, so that repeating it adds nothing"},
    VERBS_FIELDS,
    VERBS_END,
};

static const struct cli_flag_use verbs_change[] = {
    {CLI_FLAG_KEY, "the timer's key, in place of its id"},
    {CLI_FLAG_WHEN, "the new time: a duration from now, or a time"},
    {CLI_FLAG_TARGET, "the new target"},
    {CLI_FLAG_VERSION, "only if the timer has this version"},
    VERBS_FIELDS,
    VERBS_END,
};

static const struct cli_flag_use verbs_touch[] = {
    {CLI_FLAG_KEY, "the timer's key, in place of its id"},
    {CLI_FLAG_VERSION, "only if the timer has this version"},
    VERBS_END,
};

static const struct cli_flag_use verbs_get[] = {
    {CLI_FLAG_KEY, "the timer's key, in place of its id"},
    VERBS_END,
};

static const struct cli_flag_use verbs_cancel[] = {
    {CLI_FLAG_KEY, "a timer by its key; may be repeated"},
    {CLI_FLAG_LABEL, "every live timer with this label; if repeated, with all of them"},
    {CLI_FLAG_VERSION, "a single timer: only if it has this version"},
    {CLI_FLAG_YES, "do not ask"},
    VERBS_END,
};

static const struct cli_flag_use verbs_pause[] = {
    {CLI_FLAG_UNTIL, "when the timers are resumed; otherwise by a call only"},
    {CLI_FLAG_NOTE, "why, as the timers show it"},
    {CLI_FLAG_KEY, "a timer by its key; may be repeated"},
    {CLI_FLAG_LABEL, "every live timer with this label; if repeated, with all of them"},
    {CLI_FLAG_VERSION, "a single timer: only if it has this version"},
    {CLI_FLAG_YES, "do not ask"},
    VERBS_END,
};

static const struct cli_flag_use verbs_hold[] = {
    {CLI_FLAG_UNTIL, "pause: when it is resumed; otherwise by a call only"},
    {CLI_FLAG_NOTE, "pause: why, as lists show it"},
    VERBS_END,
};

static const struct cli_flag_use verbs_complete[] = {
    {CLI_FLAG_FIRE, "fire the timers now, instead of cancelling them"},
    VERBS_END,
};

static const struct cli_flag_use verbs_preview[] = {
    {CLI_FLAG_EVERY, "an interval, in place of the expression"},
    {CLI_FLAG_ZONE, "the time zone, as Europe/Berlin; UTC by default"},
    {CLI_FLAG_DST, "firings when clocks are changed"},
    {CLI_FLAG_UNTIL, "the latest time of the last firing"},
    {CLI_FLAG_START, "firings after this time; now by default"},
    {CLI_FLAG_NUMBER, "how many, 10 by default, at most 1000"},
    VERBS_END,
};

static const struct cli_flag_use verbs_count[] = {
    {CLI_FLAG_BY, "what to count apart: the state, the target's origin, or both"},
    VERBS_END,
};

static const struct cli_flag_use verbs_forecast[] = {
    {CLI_FLAG_UNIT, "what is counted together"},
    {CLI_FLAG_NUMBER, "how many units ahead, 60 by default, at most 1440"},
    VERBS_END,
};

static const struct cli_flag_use verbs_dead[] = {
    {CLI_FLAG_TARGET, "only this target"},
    {CLI_FLAG_ORIGIN, "only this origin, as dead groups shows it"},
    {CLI_FLAG_ERROR, "only this error, as dead groups shows it"},
    {CLI_FLAG_LABEL, "only with this label; if repeated, with all of them"},
    {CLI_FLAG_AFTER, "list, groups and delete: only due at this time or later"},
    {CLI_FLAG_BEFORE, "list, groups and delete: only due before this time"},
    {CLI_FLAG_ALL, "redrive or delete every dead letter"},
    {CLI_FLAG_RATE, "redrive this many in a second, in place of all at once"},
    {CLI_FLAG_NEW_TARGET, "redrive to this target, in place of that of each"},
    {CLI_FLAG_LIMIT, "list and groups: at most this many"},
    {CLI_FLAG_YES, "do not ask"},
    VERBS_END,
};

static const struct cli_flag_use verbs_lease[] = {
    {CLI_FLAG_NUMBER, "items at most, 1 by default"},
    {CLI_FLAG_WAIT, "how long to wait for the first item, not at all by default"},
    {CLI_FLAG_LEASE, "the length of the lease, 30s by default"},
    VERBS_END,
};

static const struct cli_flag_use verbs_nack[] = {
    {CLI_FLAG_DELAY, "the time until the next attempt; otherwise the retry of the timer says it"},
    {CLI_FLAG_ERROR, "what went wrong, kept as last_error"},
    {CLI_FLAG_DEAD, "make it a dead letter at once"},
    VERBS_END,
};

static const struct cli_flag_use verbs_extend[] = {
    {CLI_FLAG_LEASE, "the lease ends this long from now, 30s by default"},
    VERBS_END,
};

static const struct cli_flag_use verbs_work[] = {
    {CLI_FLAG_JOBS, "commands at a time, 1 by default"},
    {CLI_FLAG_LEASE, "the length of a lease, 30s by default; extended while the command runs"},
    {CLI_FLAG_NUMBER, "stop after this many items"},
    VERBS_END,
};

static const struct cli_flag_use verbs_listen[] = {
    {CLI_FLAG_FORWARD, "the receiver: HOST[:PORT][/PATH], http:// unless it says https://"},
    {CLI_FLAG_SECRET, "sign: whsec_..., @FILE, or in TICKWHEEL_WEBHOOK_SECRET"},
    {CLI_FLAG_JOBS, "webhooks at a time, 1 by default"},
    {CLI_FLAG_LEASE, "the length of a lease, 30s by default; extended while the receiver is slow"},
    {CLI_FLAG_NUMBER, "stop after this many items"},
    VERBS_END,
};

static const struct cli_flag_use verbs_import[] = {
    {CLI_FLAG_FROM, "skip the lines before this one, as a stopped import says"},
    {CLI_FLAG_MILLISECONDS, "take numbers of after below 60,000 as milliseconds"},
    {CLI_FLAG_TARGET, "crontab: the target of the timers, as queue:cron or a URL"},
    {CLI_FLAG_ZONE, "crontab: its time zone, unless a line sets CRON_TZ"},
    {CLI_FLAG_SYSTEM, "crontab: lines name a user, as in /etc/crontab"},
    {CLI_FLAG_LABEL, "crontab: a label of the timers; may be repeated"},
    {CLI_FLAG_DRY_RUN, "crontab: create nothing; show the next firings, or with json the lines"},
    VERBS_END,
};

static const struct cli_flag_use verbs_export[] = {
    {CLI_FLAG_LABEL, "only timers with this label; if repeated, with all of them"},
    {CLI_FLAG_TARGET, "only this target"},
    {CLI_FLAG_AFTER, "only timers that act at this time or later"},
    {CLI_FLAG_BEFORE, "only timers that act before this time"},
    VERBS_END,
};

static const struct cli_flag_use verbs_receive[] = {
    {CLI_FLAG_SECRET, "verify signatures: whsec_..., @FILE, or in TICKWHEEL_WEBHOOK_SECRET"},
    {CLI_FLAG_STATUS, "what to answer, 200 by default; 503 shows how webhooks are tried again"},
    {CLI_FLAG_NUMBER, "stop after this many webhooks"},
    VERBS_END,
};

static const struct cli_flag_use verbs_bench[] = {
    {CLI_FLAG_NUMBER, "timers to create, 10000 by default"},
    {CLI_FLAG_CONNECTIONS, "connections that create at a time, 8 by default"},
    VERBS_END,
};

static const struct cli_flag_use verbs_top[] = {
    {CLI_FLAG_INTERVAL, "the pause between two looks, 1s by default"},
    {CLI_FLAG_NUMBER, "stop after this many looks"},
    VERBS_END,
};

static const struct cli_flag_use verbs_dev[] = {
    {CLI_FLAG_DATA, "where the daemon keeps its timers, ./data by default"},
    {CLI_FLAG_PORT, "the port of the daemon, 8463 by default"},
    {CLI_FLAG_STATUS, "what webhooks are answered, 200 by default"},
    {CLI_FLAG_NUMBER, "stop after this many webhooks"},
    VERBS_END,
};

static const struct cli_flag_use verbs_doctor[] = {
    {CLI_FLAG_CONFIG, "the config file of the daemon, or in TICKWHEEL_CONFIG"},
    {CLI_FLAG_DATA, "the data folder; otherwise that of the settings, or ./data"},
    VERBS_END,
};

static const struct cli_flag_use verbs_list[] = {
    {CLI_FLAG_STATE, "only this state; repeatable"},
    {CLI_FLAG_LABEL, "only timers with this label; if repeated, with all of them"},
    {CLI_FLAG_TARGET, "only this target"},
    {CLI_FLAG_AFTER, "only timers that act at this time or later"},
    {CLI_FLAG_BEFORE, "only timers that act before this time"},
    {CLI_FLAG_LIMIT, "at most this many; a terminal shows 100, anything else all of them"},
    {CLI_FLAG_WATCH, "list again when something happens, until Ctrl-C"},
    {CLI_FLAG_INTERVAL, "the least pause of --watch, 2s by default"},
    VERBS_END,
};

const struct cli_verb CLI_VERBS[] = {
    {"add", "[WHEN] TARGET", 1, 2, "Create a timer",
     VERBS_WHEN " A timer with --cron or --every needs none.\n\n" VERBS_TARGETS,
     "tickwheel add 30m https://shop.example/recheck --payload '{\"order\": 42}' --key order-42\n"
     "tickwheel add 2026-12-24T18:00:00+01:00 queue:mail --payload @mail.json --label team:shop\n"
     "tickwheel add --cron '30 9 * * MON-FRI' --zone Europe/Berlin https://shop.example/report\n"
     "tickwheel add 3s log:hello          # needs no receiver: the daemon prints a line",
     verbs_add, timers_add},
    {"get", "ID", 0, 1, "Show a timer",
     "A timer that is over is shown while the daemon keeps it, and its state says how it ended; "
     "the\n"
     "exit code is 0 all the same.",
     "tickwheel get 06h01it6880000000400000000\n"
     "tickwheel get --key order-42 --output json",
     verbs_get, timers_get},
    {"list", "", 0, 0, "List timers in due order", "Without --state the live timers are listed.",
     "tickwheel list\n"
     "tickwheel list --label team:checkout --due-before 2026-12-01T00:00:00Z\n"
     "tickwheel list --state dead --output json\n"
     "tickwheel list --watch",
     verbs_list, lists_list},
    {"change", "ID", 0, 1, "Change a timer",
     "Labels, headers and payload are merged: a field that is not named stays. --set removes a\n"
     "field with null.",
     "tickwheel change 06h01it6880000000400000000 --when 1h\n"
     "tickwheel change --key order-42 --payload '{\"paid\": true}' --set 'labels={\"trial\": "
     "null}'\n"
     "tickwheel change --key report --cron '0 9 * * *' --if-version 3",
     verbs_change, timers_change},
    {"touch", "ID WHEN", 1, 2, "Extend a timer's time",
     "The time only becomes later.\n\n" VERBS_WHEN,
     "tickwheel touch --key session-42 30m\n"
     "tickwheel touch 06h01it6880000000400000000 2h",
     verbs_touch, timers_touch},
    {"cancel", "[ID...]", 0, CLI_ARGUMENTS_MAX, "Cancel timers",
     "More than one timer is asked about first.",
     "tickwheel cancel 06h01it6880000000400000000\n"
     "tickwheel cancel --key order-42\n"
     "tickwheel cancel --label team:checkout --yes",
     verbs_cancel, timers_cancel},
    {"complete", "EVENT...", 1, CLI_ARGUMENTS_MAX, "Complete events",
     "Ends the timers that watch the events (add --watch-event).",
     "tickwheel complete order:42\n"
     "tickwheel complete order:42 order:43 --fire",
     verbs_complete, timers_complete},
    {"fire", "[ID...]", 0, CLI_ARGUMENTS_MAX, "Fire timers now",
     "A timer that repeats fires beside its planned times. More than one timer is asked about "
     "first.",
     "tickwheel fire 06h01it6880000000400000000\n"
     "tickwheel fire --key report\n"
     "tickwheel fire --label team:checkout --yes",
     verbs_cancel, timers_fire},
    {"pause", "[ID...]", 0, CLI_ARGUMENTS_MAX, "Pause timers",
     "A paused timer is not delivered before it is resumed. More than one timer is asked about "
     "first.",
     "tickwheel pause --key report --note 'until the deploy is over'\n"
     "tickwheel pause --label team:checkout --until 2026-11-24T06:00:00Z --yes",
     verbs_pause, timers_pause},
    {"resume", "[ID...]", 0, CLI_ARGUMENTS_MAX, "Resume paused timers",
     "An overdue timer then fires at once, unless its --drop-after is over.",
     "tickwheel resume --key report\n"
     "tickwheel resume --label team:checkout --yes",
     verbs_cancel, timers_resume},
    {"count", "", 0, 0, "Count live timers", NULL,
     "tickwheel count\n"
     "tickwheel count --by state,origin",
     verbs_count, overview_count},
    {"preview", "[EXPRESSION]", 0, 1, "Draw when a schedule would fire",
     "EXPRESSION is a cron expression; days with a firing stand in brackets.",
     "tickwheel preview '30 9 * * MON-FRI' --zone Europe/Berlin\n"
     "tickwheel preview '0 0 29 2 *' -n 5\n"
     "tickwheel preview --every 36h",
     verbs_preview, plan_preview},
    {"forecast", "", 0, 0, "Draw how many timers are due in the coming hour", NULL,
     "tickwheel forecast\n"
     "tickwheel forecast --count 1440          # a day\n"
     "tickwheel forecast --unit second --count 30",
     verbs_forecast, plan_forecast},
    {"explain", "ID", 0, 1, "Say where a timer is and why it was late",
     "A sentence, and a line for each stage in which time was spent.",
     "tickwheel explain 06h030hn100020000400000008\n"
     "tickwheel explain --key order-42",
     verbs_get, plan_explain},
    {"dead", "list|groups|redrive|delete [ID...]", 1, CLI_ARGUMENTS_MAX,
     "List, group, redrive or delete dead letters",
     "A dead letter is a timer that ran out of attempts or was refused for good. More than one is\n"
     "asked about before it is redriven or deleted.",
     "tickwheel dead groups                       # what failed, and why\n"
     "tickwheel dead list --target queue:mail\n"
     "tickwheel dead redrive --origin https://shop.example --rate 50\n"
     "tickwheel dead delete --due-before 2026-11-01T00:00:00Z --yes",
     verbs_dead, dead_run},
    {"work", "QUEUE -- COMMAND...", 2, CLI_ARGUMENTS_MAX, "Run a command for each item of a queue",
     "The command gets the payload on standard input, and TICKWHEEL_ID, TICKWHEEL_ATTEMPT and\n"
     "TICKWHEEL_DUE in its environment. Exit code 0 acknowledges the item, 65 makes it a dead "
     "letter,\n"
     "any other has it tried again. A first Ctrl-C lets the commands end, a second ends them.",
     "tickwheel work mail -- ./send-mail\n"
     "tickwheel work mail --jobs 8 --lease 5m -- sh -c 'jq -r .to | ./send-mail --to-stdin'",
     verbs_work, work_run},
    {"listen", "QUEUE --forward URL", 1, 1, "Forward the items of a queue as webhooks",
     "For a receiver that the daemon cannot reach, as on a laptop or behind NAT: the items are "
     "leased\n"
     "from here, sent to the receiver as the daemon sends webhooks, and acknowledged or refused by "
     "its\n"
     "answer. --timeout is the time for an answer, too. A first Ctrl-C lets the webhooks end, a "
     "second\n"
     "breaks them off.",
     "tickwheel listen mail --forward localhost:3000\n"
     "tickwheel listen mail --forward localhost:3000/webhooks --secret @secret --jobs 8",
     verbs_listen, listen_run},
    {"lease", "QUEUE", 1, 1, "Lease items of a queue", "With --output ids it prints the receipts.",
     "tickwheel lease mail --wait 20s\n"
     "tickwheel lease mail --count 10 --lease 5m --output json",
     verbs_lease, queue_lease},
    {"ack", "QUEUE RECEIPT...", 2, CLI_ARGUMENTS_MAX, "Acknowledge leased items", NULL,
     "tickwheel ack mail 00000000000000012fa24187b49a1b1d", verbs_none, queue_ack},
    {"nack", "QUEUE RECEIPT...", 2, CLI_ARGUMENTS_MAX, "Refuse leased items", NULL,
     "tickwheel nack mail 00000000000000012fa24187b49a1b1d --delay 5m --error 'no such user'",
     verbs_nack, queue_nack},
    {"extend", "QUEUE RECEIPT...", 2, CLI_ARGUMENTS_MAX, "Extend leases", NULL,
     "tickwheel extend mail 00000000000000012fa24187b49a1b1d --lease 10m", verbs_extend,
     queue_extend},
    {"queues", "[[pause|resume] QUEUE]", 0, 2, "Show how full queues are; pause and resume them",
     "For each queue the items that are ready and leased, the workers that wait, and whether it "
     "is\n"
     "paused. No worker gets an item of a paused queue.",
     "tickwheel queues\n"
     "tickwheel queues mail --output json\n"
     "tickwheel queues pause mail --note 'the mail server moves' --until 2026-11-24T06:00:00Z\n"
     "tickwheel queues resume mail",
     verbs_hold, overview_queues},
    {"targets", "[pause|resume|reset TARGET]", 0, 2,
     "Show what goes to each target, and which fail; pause, resume and reset them",
     "For each host of webhooks and each connection of a broker the timers that wait, deliveries "
     "in\n"
     "flight, the breaker with the last failure, and whether it is paused. Nothing is sent to a "
     "paused\n"
     "target.",
     "tickwheel targets\n"
     "tickwheel targets pause https://shop.example --note 'until the deploy is over'\n"
     "tickwheel targets resume https://shop.example\n"
     "tickwheel targets reset https://shop.example       # closes its breaker",
     verbs_hold, overview_targets},
    {"cluster", "", 0, 0, "Show the nodes of a cluster and its partitions",
     "As the node sees them that is asked. A token needs the scope admin.",
     "tickwheel cluster\n"
     "tickwheel cluster --output json",
     verbs_none, overview_cluster},
    {"receive", "[PORT]", 0, 1, "Receive webhooks and show them",
     "Listens on 127.0.0.1, on port 9000 by default. The daemon calls private addresses only if\n"
     "webhook_allow names them, as make run does.",
     "tickwheel receive\n"
     "tickwheel receive 9000 --secret @/etc/tickwheel/secret\n"
     "tickwheel receive --status 503",
     verbs_receive, receive_run},
    {"dev", "[PORT]", 0, 1, "Run a daemon and a receiver of webhooks in this terminal",
     "The daemon listens on 127.0.0.1 and may call it; the receiver listens on PORT, 9000 by "
     "default.\n"
     "Ctrl-C stops both; the timers stay in ./data.",
     "tickwheel dev\n"
     "# and in another terminal:\n"
     "tickwheel add 3s http://127.0.0.1:9000/hello --payload '{\"order\": 42}'\n"
     "tickwheel add 3s log:hello",
     verbs_dev, receive_dev},
    {"import", "[crontab] FILE", 1, 2, "Create timers from a file, or from a crontab",
     "Each line is a timer as the API takes it (NDJSON); - is standard input. Importing a file "
     "again\n"
     "creates nothing twice: lines with a key are known by it, others by their number and text.\n"
     "import crontab makes a timer of each entry, whose payload has the command, its standard "
     "input "
     "and\n"
     "the variables. A line that cannot be a timer is named, and then none is created.",
     "tickwheel import timers.ndjson\n"
     "crontab -l | tickwheel import crontab - --zone Europe/Berlin --target queue:cron --dry-run\n"
     "tickwheel import crontab /etc/crontab --system --zone UTC --target queue:cron\n"
     "tickwheel export --url http://old:8463 | tickwheel import - --url http://new:8463",
     verbs_import, transfer_import},
    {"export", "", 0, 0, "Write live timers as lines that import takes",
     "Each line is a timer as it is, which import makes again; only its id is another.",
     "tickwheel export > timers.ndjson\n"
     "tickwheel export --label team:checkout | gzip > checkout.ndjson.gz",
     verbs_export, transfer_export},
    {"top", "", 0, 0, "Show rates, lateness, queues and memory live",
     "Reads /metrics, for which a token needs the scope admin. Lateness is that of the last "
     "interval.",
     "tickwheel top\n"
     "tickwheel top --interval 10s --count 6 | tee top.txt",
     verbs_top, top_run},
    {"bench", "", 0, 0, "Measure how quickly timers are created",
     "Creates timers that are due in a day, each by a call of its own, draws how long the calls "
     "took,\n"
     "and cancels the timers again.",
     "tickwheel bench\n"
     "tickwheel bench --count 100000 --connections 64",
     verbs_bench, bench_run},
    {"backup", "", 0, 0, "Copy the data folder while the daemon runs",
     "The daemon writes the copy into its backup_folder, on its machine. tickwheel check FOLDER "
     "verifies it\n"
     "there.",
     "tickwheel backup", verbs_none, service_backup},
    {"check", "FOLDER", 1, 1, "Verify a backup, or the data folder of a daemon that is stopped",
     "Runs tickwheeld --check on this machine. The exit code is 1 when the folder is damaged, and "
     "2 "
     "when\n"
     "it cannot be read.",
     "tickwheel check /var/lib/tickwheel/backups/20261120T235959Z", verbs_none, check_run},
    {"health", "", 0, 0, "Say whether the daemon serves requests", NULL,
     "tickwheel health && echo up\n"
     "tickwheel health --url https://timers.example:8463",
     verbs_none, service_health},
    {"doctor", "", 0, 0, "Check the machine that a daemon runs on",
     "Looks at the clock, time zones, limits, data folder, disk, daemon and message brokers, and "
     "prints\n"
     "a line for each: ok, warn or fail. The exit code is 1 when one fails. Run it as root or as "
     "the\n"
     "user of the daemon, which may read its files. Settings are read from the environment and "
     "the\n"
     "config file of the daemon.",
     "tickwheel doctor --config /etc/tickwheeld.conf\n"
     "tickwheel doctor --data /var/lib/tickwheel/data --output json",
     verbs_doctor, doctor_run},
    {"completion", "bash|zsh|fish", 1, 1, "Print the completion for a shell", NULL,
     "source <(tickwheel completion bash)\n"
     "mkdir -p ~/.zfunc && tickwheel completion zsh > ~/.zfunc/_tickwheel\n"
     "mkdir -p ~/.config/fish/completions\n"
     "tickwheel completion fish > ~/.config/fish/completions/tickwheel.fish",
     verbs_none, pages_completion},
    {"manual", "FOLDER", 1, 1, "Write the manual pages into a folder", NULL,
     "tickwheel manual ./man1 && man ./man1/tickwheel.1", verbs_none, pages_manual},
    {"version", "", 0, 0, "Show the version of this program", NULL, "tickwheel version", verbs_none,
     service_version},
};

const size_t CLI_VERB_COUNT = sizeof(CLI_VERBS) / sizeof(*CLI_VERBS);

const struct cli_verb *verbs_find(const char *name)
{
    for (size_t i = 0; i < CLI_VERB_COUNT; i++)
        if (strcmp(CLI_VERBS[i].name, name) == 0)
            return &CLI_VERBS[i];
    return NULL;
}
