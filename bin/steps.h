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

/* The form of a report: lines for people, or a JSON document on a line (`--check-json`). */
enum check_form { CHECK_PRINTS_LINES, CHECK_PRINTS_JSON };

/* Prints the report and returns the exit code: 0 valid, 1 damaged, 2 not readable, 3 valid up to an
 * incomplete write at the end of a log. */
int check_data(const char *folder, enum check_form form);

/* ---- data_folder.c: the place of the data folder before a daemon starts on it; restores ---- */

/* Refuses a folder whose restore did not end. Refuses also to begin a new database when another
 * one is in the folder above, in a folder within, or beside under a name that begins with the
 * folder's own: the timers are probably there. */
enum error_code data_folder_check(const char *folder, struct error *ret_error);

/* Runs `tickwheeld --restore BACKUP`: copies the backup into `folder`, which must be empty or
 * missing, and checks the copy. Until all of it is on disk and valid, no daemon starts on the
 * folder; another restore begins anew. Prints what it does, and returns the exit code: 0 restored,
 * 2 it cannot be read or the folder cannot be written, otherwise that of --check for the copy. */
int data_folder_restore(const char *backup, const char *folder);

/* ---- cluster_number.c: a number for a node whose cluster_node_id is auto ---- */

/* Sets cluster_node_id to the number that the data folder has, or else to one that it claims in the
 * control topic. Waits for the brokers. */
enum error_code cluster_number_find(struct config *config, struct error *ret_error);

/* Keeps the number in the data folder, once the node runs on it. */
enum error_code cluster_number_keep(const struct config *config, struct error *ret_error);

/* ---- cluster_topics.c: the topics of a cluster on its brokers ---- */

/* Runs `tickwheeld --cluster-create`: makes the topics that are missing, checks all, prints what
 * there is, and returns the exit code: 0 they are right; 1 they are not, or cannot be made; 2 there
 * are no cluster_brokers. */
int cluster_topics_create(const struct config *config);

/* Runs `tickwheeld --cluster-change-secret`. Returns its exit code. */
int cluster_topics_change_secret(const struct config *config);

/* Runs `tickwheeld --cluster-import FOLDER` (cluster_import.c): appends the timers of a single
 * node's folder, or those of the folders of all nodes of another cluster, to the log of a cluster
 * in which no node has started. Returns the exit code: 0 all are there; 1 not: repeat it; 2 the
 * folders cannot be read or do not have all partitions, or there are no cluster_brokers. */
int cluster_import(const struct config *config, const char *const *folders, size_t folder_count);

/* Checks them before a node starts: their partitions and settings, and that the cluster is founded.
 * Logs `cluster`, with the id and what the topics cannot keep. Waits for the brokers for half a
 * minute at most. */
enum error_code cluster_topics_check(const struct config *config, const struct event_log *log,
                                     struct error *ret_error);

/* ---- file_limit.c: fits the limits of connections to the limit of open files ---- */

/* Raises the limit of open files to the number that the settings need. If the system refuses,
 * lowers connections_max and webhook_connections_max to fit and logs `few_files`. Reason: without
 * files left, the storage fails as if the disk did. */
void file_limit_fit(struct config *config, const struct event_log *log);

/* ---- memory_limit.c: threads and memory, before libraries need them ---- */

/* Starts as many threads as the settings need, and maps as much memory, and gives both back.
 * ERROR_NO_MEMORY with the limit that may be the cause. Reason: a C++ library that gets no thread
 * or no memory ends the process. */
enum error_code memory_limit_check(const struct config *config, struct error *ret_error);

/* ---- secrets.c: the tokens file, the certificate and its key, at the start and at SIGHUP ---- */

/* Checks that the settings of access agree, and that a daemon without tokens listens on loopback
 * only. Reads no file. On INVALID, the error names the settings to change. */
enum error_code secrets_check(const struct config *config, struct error *ret_error);

/* Returns the tokens, or NULL without tokens_file. */
enum error_code secrets_load_tokens(const struct config *config, struct tokens **ret_tokens,
                                    struct error *ret_error);

/* Returns the certificate with its key, or NULL without tls_certificate. */
enum error_code secrets_load_identity(const struct config *config,
                                      struct tls_identity **ret_identity, struct error *ret_error);

/* Likewise of cluster_tls_certificate. */
enum error_code secrets_load_peer_identity(const struct config *config,
                                           struct tls_identity **ret_identity,
                                           struct error *ret_error);

/* ---- cluster.c: the nodes of a cluster reach each other ---- */

/* Checks that the settings by which nodes reach each other agree, and that there is a secret. Reads
 * no file. */
enum error_code cluster_check(const struct config *config, struct error *ret_error);

/* Listens for other nodes, which are told the address, and logs it. With cluster_listen only. */
enum error_code cluster_open(const struct config *config, const struct event_log *log,
                             struct passing *passing, struct node *node, struct error *ret_error);

#endif
