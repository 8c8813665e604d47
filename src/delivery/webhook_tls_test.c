/*
 * Goal: over TLS, only a target that can be trusted gets a webhook, and HTTP/2 carries many on one
 * connection. Method: an authority made for this run in a temporary folder, a peer in this process
 * that speaks TLS with its certificates, and nghttpd for HTTP/2 where it is installed.
 */
#include "delivery/receiver_process.h"
#include "delivery/webhook_fixture.h"

#include <openssl/err.h>
#include <strings.h>
#include <sys/stat.h>

#define OK_RESPONSE "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

struct files {
    char folder[64];
    char ca[96], ip_certificate[96], ip_key[96], expired[96];
};

/* An authority, a certificate for 127.0.0.1, and the same one a day past its end. */
static const char make_files[] =
    "set -e; cd '%s'; exec 2>openssl.log\n"
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out "
    "ca.pem"
    " -subj '/CN=Tickwheel test' -days 30\n"
    "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ip.key -out ip.csr"
    " -subj '/CN=target'\n"
    "echo 'subjectAltName=IP:127.0.0.1' >ip.ext\n"
    "sign='openssl x509 -req -in ip.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile ip.ext'\n"
    "$sign -days 30 -out ip.pem\n"
    "$sign -days -1 -out expired.pem ||\n" /* from OpenSSL 3.5 on no negative number */
    "$sign -not_before 20200101000000Z -not_after 20200102000000Z -out expired.pem\n";

/* The exit status of a command. */
static int run_shell(const char *command)
{
    pid_t pid = fork();

    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return status;
}

static int webhook_tls_test_set_up(void **state)
{
    struct files *files = calloc(1, sizeof(*files));

    snprintf(files->folder, sizeof(files->folder), "/tmp/tickwheel-tls-XXXXXX");
    assert_non_null(mkdtemp(files->folder));
    char command[2000];
    snprintf(command, sizeof(command), make_files, files->folder);
    if (run_shell(command) != 0)
        fail_msg("openssl failed, see %s/openssl.log", files->folder);
    snprintf(files->ca, sizeof(files->ca), "%s/ca.pem", files->folder);
    snprintf(files->ip_certificate, sizeof(files->ip_certificate), "%s/ip.pem", files->folder);
    snprintf(files->ip_key, sizeof(files->ip_key), "%s/ip.key", files->folder);
    snprintf(files->expired, sizeof(files->expired), "%s/expired.pem", files->folder);
    *state = files;
    return 0;
}

static int webhook_tls_test_tear_down(void **state)
{
    struct files *files = *state;
    char command[128];

    snprintf(command, sizeof(command), "rm -r '%s'", files->folder);
    free(files);
    return run_shell(command);
}

static SSL_CTX *server_context(const struct files *files, const char *certificate)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());

    assert_non_null(context);
    assert_int_equal(SSL_CTX_use_certificate_file(context, certificate, SSL_FILETYPE_PEM), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(context, files->ip_key, SSL_FILETYPE_PEM), 1);
    return context;
}

/* What comes of a webhook to https://`host` when the target shows `certificate` and we trust `ca`.
 */
static struct delivery_outcome outcome_with(SSL_CTX *context, const char *ca, const char *host,
                                            size_t *ret_requests)
{
    struct webhook_fixture fixture;

    webhook_fixture_init(&fixture, "127.0.0.0/8, ::1");
    fixture.options.ca_file = ca;
    webhook_fixture_start(&fixture);
    struct webhook_peer peer;
    peer_start(&peer, "127.0.0.1", OK_RESPONSE, context);
    char target[128];
    snprintf(target, sizeof(target), "https://%s:%u/hook", host, peer.port);
    struct delivery_outcome outcome = webhook_fixture_outcome(&fixture, target);
    if (outcome.result == DELIVERY_DONE) /* again, over the same connection */
        assert_int_equal(webhook_fixture_outcome(&fixture, target).result, DELIVERY_DONE);
    webhook_fixture_stop(&fixture);
    peer_stop(&peer);
    assert_in_range(peer.connections, 1, 2);
    *ret_requests = peer.requests;
    return outcome;
}

/* proves: outcome-retry */
static void test_trust(void **state)
{
    const struct files *files = *state;
    SSL_CTX *good = server_context(files, files->ip_certificate);
    SSL_CTX *expired = server_context(files, files->expired);
    size_t requests;

    struct delivery_outcome outcome = outcome_with(good, files->ca, "127.0.0.1", &requests);
    assert_string_equal(outcome.error, "");
    assert_int_equal(outcome.result, DELIVERY_DONE);
    assert_int_equal(requests, 2);
    /* An authority that the system does not know; another host's certificate; one that has run out.
     */
    outcome = outcome_with(good, NULL, "127.0.0.1", &requests);
    assert_string_equal(outcome.error, "certificate of the target not trusted");
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    assert_int_equal(requests, 0);
    outcome = outcome_with(good, files->ca, "localhost", &requests);
    assert_string_equal(outcome.error, "certificate of the target not trusted");
    assert_int_equal(requests, 0);
    outcome = outcome_with(expired, files->ca, "127.0.0.1", &requests);
    assert_string_equal(outcome.error, "certificate of the target not trusted");
    assert_int_equal(requests, 0);
    SSL_CTX_free(good);
    SSL_CTX_free(expired);
}

/* Over TLS too, an attempt is one request, and a connection carries a few of them: here three, and
 * then one that the peer reads and closes. */
/* proves: one-request, webhook_connection_requests_max */
static void test_one_request_over_tls(void **state)
{
    const struct files *files = *state;
    SSL_CTX *context = server_context(files, files->ip_certificate);

    for (enum peer_manner manner = PEER_KEEPS; manner <= PEER_IS_ABSENT; manner++) {
        struct webhook_fixture fixture;
        webhook_fixture_init(&fixture, "127.0.0.0/8");
        fixture.options.ca_file = files->ca;
        fixture.options.connection_requests_max = 3;
        webhook_fixture_start(&fixture);
        struct webhook_peer peer;
        peer_start_with(&peer, "127.0.0.1", OK_RESPONSE, context, manner);
        char target[128];
        snprintf(target, sizeof(target), "https://127.0.0.1:%u/hook", peer.port);
        for (int i = 0; i < 12; i++) {
            const bool fails = manner == PEER_IS_ABSENT && i % 2 == 1;
            struct delivery_outcome outcome = webhook_fixture_outcome(&fixture, target);

            assert_string_equal(outcome.error, fails ? "connection closed without an answer" : "");
            assert_int_equal(outcome.result, fails ? DELIVERY_FAILED : DELIVERY_DONE);
            if (manner == PEER_HANGS_UP)
                peer_wait_closed(&peer);
        }
        webhook_fixture_stop(&fixture);
        peer_stop(&peer);
        assert_int_equal(peer.requests, 12);
        assert_int_equal(peer.connections, manner == PEER_KEEPS      ? 4
                                           : manner == PEER_HANGS_UP ? 12
                                                                     : 6);
    }
    SSL_CTX_free(context);
}

static void copy_certificates(const char *from, const char *to)
{
    char command[300];

    snprintf(command, sizeof(command), "cat '%s' > '%s'", from, to);
    assert_int_equal(run_shell(command), 0);
}

static void reload_with(struct webhook_fixture *fixture, const char *secret, const char *file)
{
    copy_certificates(file, fixture->options.ca_file);
    assert_int_equal(webhook_reload(fixture->webhook, secret, fixture->options.ca_file,
                                    &fixture->options.tokens, NULL),
                     ERROR_NONE);
}

/* The file of authorities and the secret are exchanged while it runs: later ones are judged and
 * signed by the new ones alone, also where a connection is kept. A file that is wrong changes
 * nothing. */
/* proves: trust-reload */
static void test_reload(void **state)
{
    static const char untrusted[] = "certificate of the target not trusted";
    const struct files *files = *state;
    SSL_CTX *context = server_context(files, files->ip_certificate);
    struct webhook_fixture fixture;
    char trusted[96], target[128];

    snprintf(trusted, sizeof(trusted), "%s/trusted.pem", files->folder);
    copy_certificates(files->expired, trusted);
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    fixture.options.ca_file = trusted;
    webhook_fixture_start(&fixture);
    struct webhook_peer peer;
    peer_start(&peer, "127.0.0.1", OK_RESPONSE, context);
    peer.is_parallel = true; /* a connection that is kept does not hold up the next */
    snprintf(target, sizeof(target), "https://127.0.0.1:%u/hook", peer.port);
    for (int turn = 0; turn < 3; turn++) {
        assert_string_equal(webhook_fixture_outcome(&fixture, target).error, untrusted);
        copy_certificates(files->ca, trusted); /* nobody told */
        assert_string_equal(webhook_fixture_outcome(&fixture, target).error, untrusted);
        reload_with(&fixture, FIXTURE_SECRET, files->ca);
        assert_string_equal(webhook_fixture_outcome(&fixture, target).error, "");
        assert_non_null(strstr(peer.request, "webhook-signature: v1,"));
        copy_certificates("/dev/null", trusted);
        assert_int_equal(
            webhook_reload(fixture.webhook, NULL, trusted, &fixture.options.tokens, NULL),
            ERROR_INVALID);
        assert_string_equal(webhook_fixture_outcome(&fixture, target).error, "");
        assert_non_null(strstr(peer.request, "webhook-signature: v1,"));
        reload_with(&fixture, NULL, files->ca);
        assert_string_equal(webhook_fixture_outcome(&fixture, target).error, "");
        assert_null(strstr(peer.request, "webhook-signature"));
        reload_with(&fixture, FIXTURE_SECRET, files->expired);
    }
    webhook_fixture_stop(&fixture);
    peer_stop(&peer);
    SSL_CTX_free(context);
}

static void test_old_tls(void **state)
{
    const struct files *files = *state;
    SSL_CTX *context = server_context(files, files->ip_certificate);

    SSL_CTX_set_security_level(context, 0);
    assert_int_equal(SSL_CTX_set_max_proto_version(context, TLS1_1_VERSION), 1);
    size_t requests;
    struct delivery_outcome outcome = outcome_with(context, files->ca, "127.0.0.1", &requests);
    assert_string_equal(outcome.error, "TLS handshake failed");
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    assert_int_equal(requests, 0);
    SSL_CTX_free(context);
}

/* A target that does not speak TLS where it should. */
static void test_no_tls(void **state)
{
    const struct files *files = *state;
    struct webhook_fixture fixture;
    struct receiver_process receiver = receiver_start(NULL, NULL);

    webhook_fixture_init(&fixture, "127.0.0.0/8");
    fixture.options.ca_file = files->ca;
    webhook_fixture_start(&fixture);
    char target[128];
    snprintf(target, sizeof(target), "https://127.0.0.1:%u/hang", receiver.port);
    struct delivery_outcome outcome;
    {
        struct webhook_shipment shipment;

        webhook_shipment_init(&shipment, target);
        shipment.timer->retry.timeout_ms = 300; /* the receiver waits for the end of a request */
        webhook_fixture_deliver(&fixture, &shipment);
        outcome = shipment.delivery.outcome;
        shipment_deinit(&shipment);
    }
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    assert_string_equal(outcome.error, "no connection within 300 ms");
    webhook_fixture_stop(&fixture);
    receiver_stop(&receiver);
}

/* ---- HTTP/2 ---- */

static bool has_nghttpd(void)
{
    return run_shell("command -v nghttpd >/dev/null") == 0;
}

static bool accepts(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_up = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;

    close(fd);
    return is_up;
}

/* nghttpd cannot choose a port itself, so it gets one that was free just now; should another
 * program be faster, it ends and gets the next one. Its log goes into the folder. */
static pid_t start_nghttpd(const struct files *files, unsigned *ret_port)
{
    for (int attempt = 0; attempt < 20; attempt++) {
        struct webhook_peer peer;

        peer_start(&peer, "127.0.0.1", "", NULL);
        peer_stop(&peer);
        char port[16];
        snprintf(port, sizeof(port), "%u", peer.port);
        char log[96];
        snprintf(log, sizeof(log), "%s/nghttpd.log", files->folder);
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            if (!freopen(log, "w", stdout) || dup2(1, 2) < 0)
                _exit(1);
            execlp("nghttpd", "nghttpd", "--verbose", "--address=127.0.0.1", "--echo-upload", "-d",
                   files->folder, port, files->ip_key, files->ip_certificate, (char *)NULL);
            _exit(127);
        }
        while (waitpid(pid, NULL, WNOHANG) == 0) {
            if (accepts(peer.port)) {
                *ret_port = peer.port;
                return pid;
            }
            sched_yield();
        }
    }
    fail_msg("nghttpd does not start");
    return 0;
}

static size_t count_in_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    char line[4096];
    size_t count = 0;
    while (fgets(line, sizeof(line), file))
        count += strstr(line, text) != NULL;
    fclose(file);
    return count;
}

/* 500 webhooks share connections, as many at a time as the server takes at least (RFC 9113 asks for
 * 100). A connection takes 150 of them, and those that begin meanwhile. */
static void test_http2(void **state)
{
    const struct files *files = *state;
    static struct webhook_shipment shipments[500];

    if (!has_nghttpd()) {
        print_message("nghttpd is not installed (package nghttp2-server): not tested\n");
        skip();
    }
    unsigned port = 0;
    pid_t pid = start_nghttpd(files, &port);
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    fixture.options.ca_file = files->ca;
    fixture.options.connections_max = 100;
    fixture.options.connection_requests_max = 150;
    webhook_fixture_start(&fixture);
    char target[128];
    snprintf(target, sizeof(target), "https://127.0.0.1:%u/hook", port);
    for (size_t i = 0; i < COUNT(shipments); i++)
        webhook_shipment_init(&shipments[i], target);
    webhook_fixture_post(&fixture, shipments, COUNT(shipments));
    webhook_fixture_wait(&fixture, COUNT(shipments));
    for (size_t i = 0; i < COUNT(shipments); i++) {
        assert_string_equal(shipments[i].delivery.outcome.error, "");
        assert_int_equal(shipments[i].delivery.outcome.result, DELIVERY_DONE);
        shipment_deinit(&shipments[i]);
    }
    webhook_fixture_stop(&fixture);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    char log[96];
    snprintf(log, sizeof(log), "%s/nghttpd.log", files->folder);
    assert_int_equal(count_in_file(log, ":method: POST"), COUNT(shipments));
    assert_true(count_in_file(log, "webhook-signature: v1,") >= COUNT(shipments));
    assert_in_range(count_in_file(log, "The negotiated protocol: h2"), 2, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trust),  cmocka_unit_test(test_one_request_over_tls),
        cmocka_unit_test(test_reload), cmocka_unit_test(test_old_tls),
        cmocka_unit_test(test_no_tls), cmocka_unit_test(test_http2),
    };

    return cmocka_run_group_tests(tests, webhook_tls_test_set_up, webhook_tls_test_tear_down);
}
