/*
 * daemon_settings.h - the settings of the daemon on this machine, as far as `doctor` needs them:
 * from the environment (TICKWHEEL_DATA_FOLDER), or from the daemon's config file.
 *
 *     struct bytes list = daemon_settings_get(&settings, DAEMON_SETTING_BROKERS);
 *     for (struct daemon_broker broker; daemon_settings_next_broker(&list, &broker);)
 *         connect to broker.hosts, separated by commas
 *
 * Only the daemon checks settings (tickwheeld --check-config); unknown ones are passed over here.
 *
 * Errors     ERROR_INVALID with the number of a line that is no setting, never with its text, which
 *            may be a secret.
 * Ownership  Slices live as long as the settings.
 * Threads    Any.
 */
#ifndef TICKWHEEL_CLI_DAEMON_SETTINGS_H
#define TICKWHEEL_CLI_DAEMON_SETTINGS_H

#include "base/bytes.h"
#include "base/error.h"

enum daemon_setting {
    DAEMON_SETTING_DATA,
    DAEMON_SETTING_CONNECTIONS,
    DAEMON_SETTING_WEBHOOK_CONNECTIONS,
    DAEMON_SETTING_BROKERS,
    DAEMON_SETTING_BROKERS_FILE,
    DAEMON_SETTING_COUNT
};

struct daemon_settings {
    struct buffer values[DAEMON_SETTING_COUNT]; /* empty: not set */
};

/* Reads the text of a config file, and then the environment, which wins. */
enum error_code daemon_settings_read(struct daemon_settings *settings, struct bytes file,
                                     struct error *ret_error);
void daemon_settings_deinit(struct daemon_settings *settings);

struct bytes daemon_settings_get(const struct daemon_settings *settings,
                                 enum daemon_setting setting);

/* The number of a setting; `otherwise` when it is not set, or no number. */
uint64_t daemon_settings_number(const struct daemon_settings *settings, enum daemon_setting setting,
                                uint64_t otherwise);

/* One message broker of NAME=SCHEME://[USER:PASSWORD@]HOST[:PORT][,...][/...] */
struct daemon_broker {
    struct bytes name, hosts;
    uint16_t port; /* of hosts without one; 0: the scheme is not known */
};

/* Cuts the next broker off a list, which is separated by white space and may have lines of comment.
 * A word that names none is passed over. */
bool daemon_settings_next_broker(struct bytes *list, struct daemon_broker *ret_broker);

#endif
