/* secrets.c - the files of the [access] settings, and the certificate for other nodes. */
#include "steps.h"

#include "http/server.h"
#include "sys/files.h"

enum { PEM_SIZE_MAX = 1 << 20 };

enum error_code secrets_check(const struct config *config, struct error *ret_error)
{
    bool has_certificate = *config->tls_certificate, has_key = *config->tls_key;

    if (has_certificate != has_key)
        return error_set(ret_error, ERROR_INVALID, "%s: set %s too",
                         has_key ? "tls_key" : "tls_certificate",
                         has_key ? "tls_certificate" : "tls_key");
    if (!*config->tokens_file && config->listen_unprotected == CONFIG_LISTEN_UNPROTECTED_NO &&
        !http_address_is_loopback(config->listen_address))
        return error_set(
            ret_error, ERROR_INVALID,
            "listen_address: %s is not loopback, and without tokens every client may do "
            "everything: set tokens_file (see --make-token), and tls_certificate and "
            "tls_key; or set listen_unprotected = yes",
            config->listen_address);
    return ERROR_NONE;
}

enum error_code secrets_load_tokens(const struct config *config, struct tokens **ret_tokens,
                                    struct error *ret_error)
{
    *ret_tokens = NULL;
    if (!*config->tokens_file)
        return ERROR_NONE;

    struct error cause;
    enum error_code code = tokens_load(config->tokens_file, ret_tokens, &cause);
    return code ? error_set(ret_error, code, "tokens_file: %s", cause.text) : ERROR_NONE;
}

/* Settings that name files. Errors show the names of the settings. */
struct secrets_files {
    const char *certificate_name, *certificate, *key_name, *key;
};

static enum error_code secrets_load_files(const struct secrets_files *files,
                                          struct tls_identity **ret_identity,
                                          struct error *ret_error)
{
    *ret_identity = NULL;
    if (!*files->certificate)
        return ERROR_NONE;

    struct buffer certificate;
    buffer_init(&certificate);
    struct buffer key;
    buffer_init(&key);
    const char *at = files->certificate_name, *with = "", *other = "";
    struct error cause;
    enum error_code code =
        files_read_regular(files->certificate, PEM_SIZE_MAX, &certificate, &cause);
    if (!code) {
        at = files->key_name;
        code = files_read_regular(files->key, PEM_SIZE_MAX, &key, &cause);
    }
    if (!code) {
        at = files->certificate_name;
        with = " and ";
        other = files->key_name;
        code = tls_identity_create(buffer_bytes(&certificate), buffer_bytes(&key), ret_identity,
                                   &cause);
    }
    if (key.size)
        explicit_bzero(key.data, key.size);
    buffer_deinit(&certificate);
    buffer_deinit(&key);
    return code ? error_set(ret_error, code, "%s%s%s: %s", at, with, other, cause.text)
                : ERROR_NONE;
}

enum error_code secrets_load_identity(const struct config *config,
                                      struct tls_identity **ret_identity, struct error *ret_error)
{
    const struct secrets_files files = {"tls_certificate", config->tls_certificate, "tls_key",
                                        config->tls_key};

    return secrets_load_files(&files, ret_identity, ret_error);
}

enum error_code secrets_load_peer_identity(const struct config *config,
                                           struct tls_identity **ret_identity,
                                           struct error *ret_error)
{
    const struct secrets_files files = {"cluster_tls_certificate", config->cluster_tls_certificate,
                                        "cluster_tls_key", config->cluster_tls_key};

    return secrets_load_files(&files, ret_identity, ret_error);
}
