/*
 * config_load.h - reads the settings from file, environment and flags.
 *
 *     struct config config;
 *     struct config_request request;
 *     struct error error;
 *     if (config_load(argc, argv, environ, &config, &request, &error))
 *         return fprintf(stderr, "tickwheeld: %s\n", error.text), 2;
 *
 * Errors     ERROR_INVALID as in config.h; ERROR_IO for a file that cannot be read.
 * Threads    One.
 */
#ifndef TICKWHEEL_OPS_CONFIG_LOAD_H
#define TICKWHEEL_OPS_CONFIG_LOAD_H

#include "ops/config.h"

/* The action that the command line asks for. */
enum config_action {
    CONFIG_ACTION_RUN,
    CONFIG_ACTION_HELP,       /* --help */
    CONFIG_ACTION_VERSION,    /* --version */
    CONFIG_ACTION_PRINT,      /* --print-config: the settings in effect, as a config file */
    CONFIG_ACTION_CHECK,      /* --check-config: say whether they are valid */
    CONFIG_ACTION_CHECK_DATA, /* --check FOLDER: verify a data folder */
    /* --check-json FOLDER: verify a data folder, with a report in JSON */
    CONFIG_ACTION_CHECK_JSON,
    CONFIG_ACTION_RESTORE,        /* --restore BACKUP: copy a backup into the data folder */
    CONFIG_ACTION_CLUSTER_CREATE, /* --cluster-create: make the topics of the cluster */
    /* --cluster-change-secret: make cluster_secret the secret of the cluster */
    CONFIG_ACTION_CLUSTER_SECRET,
    /* --cluster-import FOLDER: copy the timers of folders into the log of a cluster */
    CONFIG_ACTION_CLUSTER_IMPORT,
    CONFIG_ACTION_PRINT_DOCS,    /* --print-config-docs: print docs/configuration.md */
    CONFIG_ACTION_PRINT_METRICS, /* --print-metrics-docs: print docs/metrics.md */
    CONFIG_ACTION_PRINT_OPENAPI, /* --print-openapi: print the OpenAPI document */
    /* --print-openapi-strict: print the OpenAPI document with every rule */
    CONFIG_ACTION_PRINT_OPENAPI_STRICT,
    CONFIG_ACTION_PRINT_ROUTES,  /* --print-routes: print the overview of docs/api.md */
    CONFIG_ACTION_PRINT_EXAMPLE, /* --print-config-example: print packaging/tickwheeld.conf */
};

enum { CONFIG_FOLDERS_MAX = 64 };

struct config_request {
    enum config_action action;
    bool wants_banner; /* --banner: print a command to try at the start */
    /* Folder of --check, --check-json or --restore, or folders of --cluster-import; point into the
     * arguments. */
    const char *folders[CONFIG_FOLDERS_MAX];
    size_t folder_count;
};

/* Reads the settings: the defaults, then the file named by --config or TICKWHEEL_CONFIG, then the
 * environment (texts "NAME=value", terminated by NULL), then the flags. On failure the outputs are
 * unspecified. */
enum error_code config_load(int argc, char *const argv[], char *const environment[],
                            struct config *ret_config, struct config_request *ret_request,
                            struct error *ret_error);

/* Copies the settings, and reads the files of secrets again: webhook_secret_file,
 * broker_connections_file and cluster_secret_file. */
enum error_code config_reload_secrets(const struct config *config, struct config *ret_fresh,
                                      struct error *ret_error);

/* Overwrites the secrets among the arguments, because all users of the machine can see these in the
 * list of processes. For the arguments of main, after config_load. */
void config_hide_secrets(int argc, char *const argv[]);

/* Sets every field that the text of a config file names. Error texts name `origin` as its
 * source. */
enum error_code config_read(struct config *config, struct bytes text, const char *origin,
                            struct error *ret_error);

#endif
