/*
 * steps.h - what tickwheeld.c does around the service: it checks, restores, limits and loads.
 *
 * Threads    The main one.
 */
#ifndef TICKWHEEL_BIN_STEPS_H
#define TICKWHEEL_BIN_STEPS_H

#include "base/error.h"
#include "http/tls.h"
#include "node/passing.h"
#include "ops/config.h"
#include "ops/event_log.h"
#include "ops/tokens.h"

/* ---- check.c: `tickwheeld --check FOLDER` verifies a data folder and prints the findings ---- */

/* The form of a report: lines for people, or with --check-json a JSON document in one line. */
enum check_form { CHECK_PRINTS_LINES, CHECK_PRINTS_JSON };

/* Prints the report and returns the exit code: 0 if valid, 1 if damaged, 2 if not readable, 3 if
 * valid up to an incomplete write at the end of a log. */
int check_data(const char *folder, enum check_form form);

/* ---- data_folder.c: the place of the data folder before a daemon starts on it; restores ---- */

/* Refuses a folder whose restore did not end. If the folder has no database yet, also refuses if
 * another one is in the folder above, in a folder within, or next to it under a name that begins
 * with the folder's name: the timers are probably there. */
enum error_code data_folder_check(const char *folder, struct error *ret_error);

/* Runs `tickwheeld --restore BACKUP`: copies the backup into `folder`, which must be empty or
 * missing, and checks the copy. Until everything is on disk and valid, no daemon starts on the
 * folder, and another restore starts from the beginning. Prints what it does. Returns the exit
 * code: 0 if restored; 2 if the backup cannot be read or the folder cannot be written; otherwise
 * that of --check for the copy. */
int data_folder_restore(const char *backup, const char *folder);

/* ---- settings_check.c ---- */

/* Checks the settings beyond the limits in their table. Reads the files that they name. */
enum error_code settings_check(const struct config *config, struct error *ret_error);

/* ---- virtual_clock.c: the setting `clock` ---- */

/* Checks that a virtual clock has no cluster and listens on loopback only. Reads no file. */
enum error_code clock_check(const struct config *config, struct error *ret_error);

/* With a virtual clock, adds loopback to webhook_allow. Called before settings_check. */
enum error_code clock_allow_loopback(struct config *config, struct error *ret_error);

/* Starts the clock that the data folder has, or is to have (node/clock_mark.h). Called after
 * data_folder_check. */
enum error_code clock_start(const struct config *config, struct error *ret_error);

/* ---- cluster_number.c: a number for a node whose cluster_node_id is auto ---- */

/* Sets cluster_node_id to the number in the data folder; if there is none, to a number that it
 * claims in the control topic. Waits for the brokers. */
enum error_code cluster_number_find(struct config *config, struct error *ret_error);

/* Stores the number in the data folder, once the node runs on it. */
enum error_code cluster_number_keep(const struct config *config, struct error *ret_error);

/* ---- cluster_topics.c: the topics of a cluster on its brokers ---- */

/* Runs `tickwheeld --cluster-create`: makes the topics that are missing, checks all of them, and
 * prints the result. Returns the exit code: 0 if they are right; 1 if they are wrong, or cannot be
 * made; 2 if cluster_brokers is not set. */
int cluster_topics_create(const struct config *config);

/* Runs `tickwheeld --cluster-change-secret`. Returns its exit code. */
int cluster_topics_change_secret(const struct config *config);

/* Runs `tickwheeld --cluster-import FOLDER` (cluster_import.c): appends the timers of folders to
 * the log of a cluster in which no node has started. They are the folder of a single node, or those
 * of all nodes of another cluster. Returns the exit code: 0 if all timers are there; 1 if not, so
 * that the command must be repeated; 2 if the folders cannot be read or lack partitions, or
 * cluster_brokers is not set. */
int cluster_import(const struct config *config, const char *const *folders, size_t folder_count);

/* Checks the topics before a node starts: their partitions and settings, and that the cluster was
 * founded. Logs `cluster`, with the id of the cluster and with what the topics cannot keep. Waits
 * for the brokers for at most half a minute. */
enum error_code cluster_topics_check(const struct config *config, const struct event_log *log,
                                     struct error *ret_error);

/* ---- file_limit.c: fits the limits of connections to the limit of open files ---- */

/* Raises the limit of open files to the number that the settings need. If the system refuses,
 * lowers connections_max and webhook_connections_max, and logs `few_files`. If files ran out, the
 * storage would fail as if the disk had failed. */
void file_limit_fit(struct config *config, const struct event_log *log);

/* ---- memory_limit.c: threads and memory, before libraries need them ---- */

/* Starts as many threads and maps as much memory as the settings need, and releases both.
 * ERROR_NO_MEMORY names the limit that may be the cause. Without this check a C++ library that gets
 * no thread or no memory would end the process. */
enum error_code memory_limit_check(const struct config *config, struct error *ret_error);

/* ---- secrets.c: the tokens file, the certificate and its key, at the start and at SIGHUP ---- */

/* Checks that the settings of access agree, and that a daemon without tokens listens on loopback
 * only. Reads no file. ERROR_INVALID names the settings to change. */
enum error_code secrets_check(const struct config *config, struct error *ret_error);

/* Returns the tokens; NULL if tokens_file is not set. */
enum error_code secrets_load_tokens(const struct config *config, struct tokens **ret_tokens,
                                    struct error *ret_error);

/* Returns the certificate with its key; NULL if tls_certificate is not set. */
enum error_code secrets_load_identity(const struct config *config,
                                      struct tls_identity **ret_identity, struct error *ret_error);

/* Returns the certificate for other nodes; NULL if cluster_tls_certificate is not set. */
enum error_code secrets_load_peer_identity(const struct config *config,
                                           struct tls_identity **ret_identity,
                                           struct error *ret_error);

/* ---- cluster.c: the nodes of a cluster reach each other ---- */

/* Checks that the settings by which nodes reach each other agree, and that there is a secret of the
 * cluster. Reads no file. */
enum error_code cluster_check(const struct config *config, struct error *ret_error);

/* Listens for other nodes, tells them the address, and logs it. Only with cluster_listen. */
enum error_code cluster_open(const struct config *config, const struct event_log *log,
                             struct passing *passing, struct node *node, struct error *ret_error);

#endif
