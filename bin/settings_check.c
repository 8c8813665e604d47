/* settings_check.c - what tickwheeld checks in its settings before it starts. */
#include "source_log.h"
#include "steps.h"

#include "api/core/site.h"
#include "delivery/brokers.h"
#include "delivery/guard.h"
#include "delivery/named_file.h"
#include "delivery/signatures.h"
#include "delivery/token_issuer.h"
#include "node/node.h"
#include "sys/clock.h"

static enum error_code settings_check_access(const struct config *config, struct error *ret_error)
{
    struct tokens *tokens = NULL;
    enum error_code code = secrets_check(config, ret_error);

    if (!code)
        code = secrets_load_tokens(config, &tokens, ret_error);
    struct tls_identity *identity = NULL;
    if (!code)
        code = secrets_load_identity(config, &identity, ret_error);
    tokens_free(tokens);
    tls_identity_release(identity);
    return code;
}

/* Checks the settings of the tokens that webhooks carry. */
static enum error_code settings_check_tokens(const struct config *config, struct error *ret_error)
{
    const struct token_issuer_options options = {.issuer = config->webhook_token_issuer,
                                                 .keys_file = config->webhook_token_keys_file};
    const struct bytes name = bytes_of(options.issuer);
    struct token_issuer *issuer = NULL;

    if (!*options.issuer && !*options.keys_file)
        return ERROR_NONE;
    if (!*options.issuer)
        return error_set(ret_error, ERROR_INVALID,
                         "webhook_token_keys_file: set webhook_token_issuer too");
    if (!*options.keys_file && !*config->secrets_keys)
        return error_set(ret_error, ERROR_INVALID,
                         "webhook_token_issuer: set secrets_keys_file too, for keys that the "
                         "daemon makes itself, or webhook_token_keys_file");
    if (!bytes_has_prefix(name, BYTES("https://")) && !bytes_has_prefix(name, BYTES("http://")))
        return error_set(ret_error, ERROR_INVALID,
                         "webhook_token_issuer: it is a URL that begins with https://");
    const enum error_code code = token_issuer_create(&options, &issuer, ret_error);
    token_issuer_destroy(issuer);
    return code;
}

static enum error_code settings_check_named_targets(const struct config *config,
                                                    const struct guard *guard,
                                                    struct error *ret_error)
{
    const struct named_options options = {.keys = "",
                                          .secrets_folder = "",
                                          .sensitive_headers = config->sensitive_headers,
                                          .guard = guard,
                                          .issues_tokens = *config->webhook_token_issuer};
    struct definitions *definitions = NULL;
    struct named *named = NULL;

    if (!*config->named_targets_file)
        return ERROR_NONE;
    enum error_code code = named_create(&options, &named, ret_error);
    if (!code)
        code = named_file_load(named, config->named_targets_file, wall_machine_now(),
                               DEFINITION_CONFIGURED, &definitions, ret_error);
    definitions_leave(definitions);
    named_destroy(named);
    return code;
}

enum error_code settings_check(const struct config *config, struct error *ret_error)
{
    struct guard guard;
    struct error cause;
    enum error_code code = guard_init(&guard, config->webhook_allow, &cause);

    if (code)
        return error_set(ret_error, code, "webhook_allow: %s", cause.text);
    struct signatures *signatures = NULL;
    code = signatures_create(config->webhook_secret, &signatures, &cause);
    signatures_destroy(signatures);
    if (code)
        return error_set(ret_error, code, "webhook_secret: %s", cause.text);
    code = settings_check_tokens(config, ret_error);
    if (!code)
        code = settings_check_named_targets(config, &guard, ret_error);
    if (code)
        return code;
    const struct brokers_options brokers = {.connections = config->broker_connections,
                                            .backends = broker_backends,
                                            .cluster_brokers = config->cluster_brokers,
                                            .cluster_log = config->cluster_log};
    code = brokers_check_settings(&brokers, &cause);
    if (code)
        return error_set(ret_error, code, "broker_connections: %s", cause.text);
    code = source_log_check(config, ret_error);
    if (!code)
        code = site_check_settings(config, ret_error);
    if (!code)
        code = clock_check(config, ret_error);
    if (!code)
        code = node_backup_check_settings(config, ret_error);
    if (!code)
        code = cluster_check(config, ret_error);
    return code ? code : settings_check_access(config, ret_error);
}
