/* client.c - requests to the daemon, by libcurl, and the problems that it answers with. */
#include "cli/client.h"

#include "base/number.h"
#include "cli/value.h"
#include "sys/clock.h"

#include <assert.h>
#include <curl/curl.h>
#include <limits.h>
#include <stdlib.h>

#define CLIENT_CONNECT_TIMEOUT_MS 10000L
#define CLIENT_PROBE_TIMEOUT_MS   3000L

struct client_transfer {
    struct cli *cli;
    const struct cli_request *request;
    struct cli_answer *answer;
    bool is_too_large;
    bool was_sent;   /* libcurl has begun to send the request */
    bool is_cut_off; /* the connection was closed after that */
    CURL *curl;
    char why[CURL_ERROR_SIZE]; /* error text of libcurl; "" if it has none */
};

static size_t client_on_body(char *data, size_t size, size_t count, void *context)
{
    struct client_transfer *transfer = context;
    struct bytes chunk = {data, size * count};

    if (transfer->request->sink)
        return transfer->request->sink(transfer->request->context, chunk) ? chunk.size : 0;
    if (chunk.size > CLI_ANSWER_BYTES_MAX - transfer->answer->body.size) {
        transfer->is_too_large = true;
        return 0;
    }
    buffer_append_bytes(&transfer->answer->body, chunk);
    return buffer_failed(&transfer->answer->body) ? 0 : chunk.size;
}

/* Reads a Retry-After, which is a number of seconds or a date. */
static void client_read_retry_after(struct bytes value, uint64_t *ret_seconds)
{
    struct buffer text;
    uint64_t now = wall_now().ms / 1000;

    if (number_parse(value, 10, ret_seconds))
        return;
    buffer_init(&text);
    buffer_append_bytes(&text, value);
    time_t date = curl_getdate(cli_text(&text), NULL);
    *ret_seconds = date > 0 && (uint64_t)date > now ? (uint64_t)date - now : 0;
    buffer_deinit(&text);
}

static size_t client_on_header(char *data, size_t size, size_t count, void *context)
{
    struct client_transfer *transfer = context;
    struct bytes line = {data, size * count}, name = bytes_cut(&line, ':');

    if (name.size == 11 && strncasecmp(name.data, "Retry-After", 11) == 0) {
        while (line.size && (line.data[line.size - 1] == '\n' || line.data[line.size - 1] == '\r'))
            line.size--;
        client_read_retry_after(bytes_trim(line), &transfer->answer->retry_after_s);
    } else if (name.size == 19 && strncasecmp(name.data, "Idempotent-Replayed", 19) == 0) {
        transfer->answer->is_repeated = true;
    }
    return size * count;
}

/* Called by libcurl about once a second, and after each part of the body. If a signal asked to
 * stop, ends the transfer. */
static int client_on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct client_transfer *transfer = context;

    (void)a, (void)b, (void)c, (void)d;
    return !cli_wait(transfer->cli, 0);
}

/* Called when libcurl is about to send the request. If a kept connection is closed without an
 * answer, libcurl sends the request again. The daemon may have read it already, so no POST is sent
 * twice. */
static int client_on_send(void *context, char *peer, char *own, int peer_port, int own_port)
{
    struct client_transfer *transfer = context;
    long sent = 0;

    (void)peer, (void)own, (void)peer_port, (void)own_port;
    curl_easy_getinfo(transfer->curl, CURLINFO_REQUEST_SIZE, &sent);
    transfer->is_cut_off =
        transfer->was_sent && sent > 0 && strcmp(transfer->request->method, "POST") == 0;
    transfer->was_sent = true;
    return transfer->is_cut_off ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

static bool client_set(CURL *curl, struct client_transfer *transfer, const char *url,
                       struct curl_slist *headers)
{
    const struct cli *cli = transfer->cli;
    const struct cli_request *request = transfer->request;
    CURLcode code = CURLE_OK;

#define SET(option, value) code = code ? code : curl_easy_setopt(curl, option, value)
    SET(CURLOPT_URL, url);
    /* redirects are not followed, because their target would get the token */
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_CUSTOMREQUEST, request->method);
    if (request->body.data) {
        SET(CURLOPT_POSTFIELDS, request->body.data);
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.size);
    }
    if (*cli->settings.ca_file && !request->url)
        SET(CURLOPT_CAINFO, cli->settings.ca_file);
    if (*cli->settings.client_cert && !request->url)
        SET(CURLOPT_SSLCERT, cli->settings.client_cert);
    if (*cli->settings.client_key && !request->url)
        SET(CURLOPT_SSLKEY, cli->settings.client_key);
    SET(CURLOPT_ERRORBUFFER, transfer->why);
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_USERAGENT, "tickwheel/" TICKWHEEL_VERSION);
    SET(CURLOPT_CONNECTTIMEOUT_MS, CLIENT_CONNECT_TIMEOUT_MS);
    SET(CURLOPT_TIMEOUT_MS, request->sink && !request->url ? 0L : (long)cli->settings.timeout_ms);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_PREREQFUNCTION, client_on_send);
    SET(CURLOPT_PREREQDATA, transfer);
    SET(CURLOPT_WRITEFUNCTION, client_on_body);
    SET(CURLOPT_WRITEDATA, transfer);
    SET(CURLOPT_HEADERFUNCTION, client_on_header);
    SET(CURLOPT_HEADERDATA, transfer);
    SET(CURLOPT_NOPROGRESS, cli->has_signals ? 0L : 1L);
    SET(CURLOPT_XFERINFOFUNCTION, client_on_progress);
    SET(CURLOPT_XFERINFODATA, transfer);
#undef SET
    return code == CURLE_OK;
}

/* Appends a header to the list. If out of memory, frees the list and returns NULL. */
static struct curl_slist *client_add(struct curl_slist *list, bool *failed, const char *format,
                                     const char *value)
{
    struct buffer line;

    buffer_init(&line);
    buffer_append_text(&line, format);
    buffer_append_text(&line, value);
    struct curl_slist *longer = curl_slist_append(list, cli_text(&line));
    *failed = *failed || !longer || buffer_failed(&line);
    buffer_deinit(&line);
    return longer ? longer : list;
}

static struct curl_slist *client_headers(const struct cli *cli, const struct cli_request *request,
                                         bool *failed)
{
    struct curl_slist *list = client_add(NULL, failed, "Expect:", "");

    if (request->body.data)
        list = client_add(list, failed, "Content-Type: ",
                          request->content_type ? request->content_type : "application/json");
    if (*cli->settings.token && !request->url)
        list = client_add(list, failed, "Authorization: Bearer ", cli->settings.token);
    struct bytes rest = bytes_of(request->header ? request->header : "");
    while (rest.size) {
        struct buffer line;

        buffer_init(&line);
        buffer_append_bytes(&line, bytes_cut(&rest, '\n'));
        list = client_add(list, failed, "", cli_text(&line));
        buffer_deinit(&line);
    }
    return list;
}

static size_t client_drop_body(char *data, size_t size, size_t count, void *context)
{
    (void)data, (void)context;
    return size * count;
}

/* True if the port of the daemon speaks this protocol, although the URL has another scheme. Nothing
 * secret is sent. */
static bool client_speaks(const struct cli *cli, const char *scheme)
{
    const char *rest = strstr(cli->settings.url, "://");
    CURL *curl = curl_easy_init();
    struct buffer url;

    buffer_init(&url);
    buffer_append_text(&url, scheme);
    buffer_append_text(&url, rest ? rest : "");
    buffer_append_text(&url, "/healthz");
    bool speaks = curl && rest && curl_easy_setopt(curl, CURLOPT_URL, cli_text(&url)) == CURLE_OK;
    if (speaks) {
        const bool is_tls = strcmp(scheme, "https") == 0;

        curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
        curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, CLIENT_PROBE_TIMEOUT_MS);
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(curl, CURLOPT_CONNECT_ONLY, is_tls ? 1L : 0L);
        curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, client_drop_body);
        speaks = curl_easy_perform(curl) == CURLE_OK;
    }
    curl_easy_cleanup(curl);
    buffer_deinit(&url);
    return speaks;
}

/* Complains about a certificate with the text of OpenSSL, and says what to do. */
static enum cli_exit client_distrusts(const struct client_transfer *transfer)
{
    static const char prefix[] = "SSL certificate problem: ";
    const char *url = transfer->cli->settings.url, *why = transfer->why;
    long result = 0;

    if (strncmp(why, prefix, sizeof(prefix) - 1) == 0)
        why += sizeof(prefix) - 1;
    curl_easy_getinfo(transfer->curl, CURLINFO_SSL_VERIFYRESULT, &result);
    const bool is_unknown = result == 18 || result == 19 || result == 20 || result == 21;
    return cli_complain(
        CLI_EXIT_UNAVAILABLE, "%s: its certificate is not trusted: %s%s", url,
        *why ? why : "it is for another host",
        is_unknown ? ". Name the file of its authority by --ca-file or SSL_CERT_FILE" : "");
}

/* Complains about a failure that is caused by TLS, or by a URL without it. Returns CLI_EXIT_DONE if
 * the cause is another one. */
static enum cli_exit client_failed_tls(struct cli *cli, const struct client_transfer *transfer,
                                       CURLcode code)
{
    const char *url = cli->settings.url;
    const bool is_tls = strncmp(url, "https:", 6) == 0;

    if (code == CURLE_PEER_FAILED_VERIFICATION)
        return client_distrusts(transfer);
    if (code == CURLE_SSL_CACERT_BADFILE)
        return cli_complain(CLI_EXIT_UNAVAILABLE,
                            "there are no certificates in %s, which --ca-file, CURL_CA_BUNDLE, "
                            "SSL_CERT_FILE or the config file names",
                            cli->settings.ca_file);
    if (is_tls && code == CURLE_SSL_CONNECT_ERROR) {
        if (client_speaks(cli, "http"))
            return cli_complain(CLI_EXIT_UNAVAILABLE,
                                "%s: this port speaks plain HTTP, not TLS: write http://%s", url,
                                strstr(url, "://") + 3);
        return cli_complain(CLI_EXIT_UNAVAILABLE, "%s: TLS failed: %s", url,
                            *transfer->why ? transfer->why : curl_easy_strerror(code));
    }
    const bool may_want_tls = code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR ||
                              code == CURLE_SEND_ERROR || code == CURLE_WEIRD_SERVER_REPLY ||
                              code == CURLE_UNSUPPORTED_PROTOCOL;
    if (!is_tls && may_want_tls && client_speaks(cli, "https"))
        return cli_complain(CLI_EXIT_UNAVAILABLE,
                            "%s: this port speaks TLS, not plain HTTP: write https://%s", url,
                            strstr(url, "://") + 3);
    return CLI_EXIT_DONE;
}

static enum cli_exit client_failed(struct cli *cli, const struct client_transfer *transfer,
                                   CURLcode code)
{
    const char *url = cli->settings.url;

    if (transfer->request->is_quiet)
        return code == CURLE_ABORTED_BY_CALLBACK && !transfer->is_cut_off ? CLI_EXIT_STOPPED
                                                                          : CLI_EXIT_UNAVAILABLE;
    if (transfer->is_too_large)
        return cli_complain(CLI_EXIT_UNAVAILABLE, "the answer is larger than %u MiB",
                            (unsigned)(CLI_ANSWER_BYTES_MAX >> 20));
    if (transfer->is_cut_off)
        return cli_complain(CLI_EXIT_UNAVAILABLE,
                            "%s closed the connection without an answer; a change may have taken "
                            "effect",
                            url);
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return CLI_EXIT_STOPPED;
    if (code == CURLE_WRITE_ERROR && transfer->request->sink)
        return CLI_EXIT_DONE;
    if (code == CURLE_COULDNT_CONNECT)
        return cli_complain(CLI_EXIT_UNAVAILABLE,
                            "no daemon answers at %s: start tickwheeld, or name it by --url or "
                            "TICKWHEEL_URL",
                            url);
    if (code == CURLE_OPERATION_TIMEDOUT)
        return cli_complain(CLI_EXIT_UNAVAILABLE,
                            "%s did not answer in time (--timeout); a change may have taken effect",
                            url);
    if (code == CURLE_COULDNT_RESOLVE_HOST)
        return cli_complain(CLI_EXIT_UNAVAILABLE, "%s: there is no host of this name", url);
    const enum cli_exit told =
        transfer->request->url ? CLI_EXIT_DONE : client_failed_tls(cli, transfer, code);
    return told ? told
                : cli_complain(CLI_EXIT_UNAVAILABLE, "%s: %s", url,
                               *transfer->why ? transfer->why : curl_easy_strerror(code));
}

struct cli_call {
    struct client_transfer transfer;
    struct cli_request request;
    CURL *curl;
    /* set of calls that run together; NULL if cli_send performs this one alone */
    struct cli_calls *calls;
    struct curl_slist *headers;
    struct buffer url;
    bool is_over;
    CURLcode code; /* result of the transfer, once it has ended */
};

struct cli_calls {
    CURLM *multi;
};

/* Prepares the handle for a request. Returns false if out of memory. client_end must be called in
 * either case. */
static bool client_begin(struct cli *cli, const struct cli_request *request,
                         struct cli_answer *answer, struct cli_call *call)
{
    bool failed = !call->curl;

    *answer = (struct cli_answer){0};
    call->request = *request;
    call->transfer = (struct client_transfer){
        .cli = cli, .request = &call->request, .answer = answer, .curl = call->curl};
    buffer_append_text(&call->url, request->url ? request->url : cli->settings.url);
    buffer_append_text(&call->url, request->url ? "" : request->path);
    call->headers = client_headers(cli, request, &failed);
    const char *url = cli_text(&call->url);
    return !failed && *url && client_set(call->curl, &call->transfer, url, call->headers);
}

static enum cli_exit client_end(struct cli *cli, struct cli_call *call, CURLcode code)
{
    struct cli_answer *answer = call->transfer.answer;
    long status = 0;

    if (code == CURLE_OK || code == CURLE_WRITE_ERROR)
        curl_easy_getinfo(call->curl, CURLINFO_RESPONSE_CODE, &status);
    answer->status = (int)status;
    answer->why = curl_easy_strerror(code);
    answer->is_json = cli_is_json(buffer_bytes(&answer->body), NULL, NULL);
    curl_slist_free_all(call->headers);
    buffer_deinit(&call->url);
    if (call->curl)
        curl_easy_setopt(call->curl, CURLOPT_ERRORBUFFER, NULL);
    return code ? client_failed(cli, &call->transfer, code) : CLI_EXIT_DONE;
}

enum cli_exit cli_send(struct cli *cli, const struct cli_request *request,
                       struct cli_answer *ret_answer)
{
    struct cli_call call = {0};
    CURLcode code = CURLE_OUT_OF_MEMORY;

    if (!cli->curl)
        cli->curl = curl_easy_init();
    else
        curl_easy_reset(cli->curl); /* keeps the connection */
    call.curl = cli->curl;
    if (client_begin(cli, request, ret_answer, &call))
        code = curl_easy_perform(call.curl);
    return client_end(cli, &call, code);
}

/* ---- calls beside other work ---- */

struct cli_calls *cli_calls_create(void)
{
    struct cli_calls *calls = calloc(1, sizeof(*calls));

    if (calls && (calls->multi = curl_multi_init()))
        return calls;
    free(calls);
    return NULL;
}

void cli_calls_destroy(struct cli_calls *calls)
{
    if (!calls)
        return;
    curl_multi_cleanup(calls->multi);
    free(calls);
}

struct cli_call *cli_call_create(struct cli_calls *calls)
{
    struct cli_call *call = calloc(1, sizeof(*call));

    if (!call)
        return NULL;
    call->calls = calls;
    if ((call->curl = curl_easy_init()))
        return call;
    free(call);
    return NULL;
}

void cli_call_destroy(struct cli_call *call)
{
    if (!call)
        return;
    curl_easy_cleanup(call->curl);
    free(call);
}

bool cli_call_start(struct cli *cli, struct cli_call *call, const struct cli_request *request,
                    struct cli_answer *answer)
{
    curl_easy_reset(call->curl);
    call->is_over = false;
    if (client_begin(cli, request, answer, call) &&
        curl_easy_setopt(call->curl, CURLOPT_NOPROGRESS, 1L) == CURLE_OK &&
        curl_easy_setopt(call->curl, CURLOPT_PRIVATE, call) == CURLE_OK &&
        curl_multi_add_handle(call->calls->multi, call->curl) == CURLM_OK)
        return true;
    client_end(cli, call, CURLE_OUT_OF_MEMORY);
    return false;
}

/* Lets all calls proceed. Returns true if one has ended since the last call of this function. */
static bool client_perform(struct cli_calls *calls)
{
    bool has_ended = false;
    int running, left;

    curl_multi_perform(calls->multi, &running);
    for (CURLMsg *message; (message = curl_multi_info_read(calls->multi, &left));) {
        struct cli_call *call;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
        call->is_over = has_ended = true;
        call->code = message->data.result;
    }
    return has_ended;
}

void cli_calls_wait(struct cli_calls *calls, struct pollfd *others, unsigned count, uint64_t ms)
{
    struct curl_waitfd waits[CLI_CALL_WAITS_MAX];

    assert(count <= CLI_CALL_WAITS_MAX);
    for (unsigned i = 0; i < count; i++)
        waits[i] = (struct curl_waitfd){.fd = others[i].fd, .events = others[i].events};
    if (client_perform(calls))
        ms = 0;
    curl_multi_poll(calls->multi, waits, count, ms > INT_MAX ? INT_MAX : (int)ms, NULL);
    for (unsigned i = 0; i < count; i++)
        others[i].revents = waits[i].revents;
    client_perform(calls);
}

bool cli_call_is_over(const struct cli_call *call)
{
    return call->is_over;
}

enum cli_exit cli_call_end(struct cli *cli, struct cli_call *call)
{
    curl_multi_remove_handle(call->calls->multi, call->curl);
    return client_end(cli, call, call->is_over ? call->code : CURLE_ABORTED_BY_CALLBACK);
}

enum cli_exit cli_ask(struct cli *cli, const char *method, const char *path, struct bytes body,
                      struct cli_answer *ret_answer)
{
    struct cli_request request = {.method = method, .path = path, .body = body};
    enum cli_exit code = cli_send(cli, &request, ret_answer);

    if (code || (ret_answer->status / 100 == 2 && ret_answer->is_json))
        return code;
    return cli_complain_of(ret_answer);
}

enum cli_exit cli_exit_of(int status)
{
    switch (status) {
    case 404:
    case 410:
        return CLI_EXIT_NOT_FOUND;
    case 409:
    case 412:
        return CLI_EXIT_CONFLICT;
    case 401:
    case 403:
        return CLI_EXIT_DENIED;
    default:
        return status / 100 == 4 ? CLI_EXIT_FAILED : CLI_EXIT_UNAVAILABLE;
    }
}

bool cli_is_problem(const struct cli_answer *answer)
{
    const struct bytes type = cli_member(buffer_bytes(&answer->body), "type");

    return answer->is_json && bytes_has_prefix(type, BYTES("\"/problems/"));
}

enum cli_exit cli_complain_of(const struct cli_answer *answer)
{
    struct bytes problem = buffer_bytes(&answer->body);
    enum cli_exit code = cli_exit_of(answer->status);

    if (answer->status == 400 && !answer->is_json && problem.size &&
        memmem(problem.data, problem.size, "HTTPS", 5)) /* nginx and Go answer with this word */
        return cli_complain(CLI_EXIT_UNAVAILABLE,
                            "the port speaks TLS, not plain HTTP: write https:// in the URL");
    if (!cli_is_problem(answer))
        return cli_complain(CLI_EXIT_UNAVAILABLE,
                            "the answer has status %d and is not of tickwheeld: is the URL right?",
                            answer->status);
    struct buffer text;
    buffer_init(&text);
    cli_append_value(&text, cli_member(problem, "title"));
    buffer_printf(&text, " (%d)", answer->status);
    struct bytes detail = cli_member(problem, "detail");
    struct cli_list errors;
    struct bytes each;
    cli_list_init(&errors, cli_member(problem, "errors"));
    bool has_errors = false;
    while (cli_list_next(&errors, &each)) {
        struct bytes place = cli_member(each, "pointer");

        buffer_append_text(&text, has_errors ? "; " : ": ");
        cli_append_value(&text, place.size ? place : cli_member(each, "parameter"));
        buffer_append_text(&text, ": ");
        cli_append_value(&text, cli_member(each, "detail"));
        has_errors = true;
    }
    if (!has_errors && detail.size) {
        buffer_append_text(&text, ": ");
        cli_append_value(&text, detail);
    }
    if (answer->status == 401)
        buffer_append_text(&text, "; set TICKWHEEL_TOKEN, or token in the config file");
    if (answer->retry_after_s)
        buffer_printf(&text, "; try again in %llu s", (unsigned long long)answer->retry_after_s);
    cli_complain(code, "%s", cli_text(&text));
    buffer_deinit(&text);
    return code;
}

void cli_answer_deinit(struct cli_answer *answer)
{
    buffer_deinit(&answer->body);
}

bool cli_connects(const char *address, uint64_t timeout_ms)
{
    CURL *curl = curl_easy_init();
    CURLcode code = curl ? CURLE_OK : CURLE_OUT_OF_MEMORY;
    struct buffer url;

    buffer_init(&url);
    buffer_append_text(&url, "http://"); /* only opens the connection, and sends nothing */
    buffer_append_text(&url, address);
#define SET(option, value) code = code ? code : curl_easy_setopt(curl, option, value)
    SET(CURLOPT_URL, cli_text(&url));
    SET(CURLOPT_CONNECT_ONLY, 1L);
    SET(CURLOPT_NOPROXY, "*");
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)timeout_ms);
    SET(CURLOPT_NOSIGNAL, 1L);
#undef SET
    code = code ? code : curl_easy_perform(curl);
    curl_easy_cleanup(curl);
    buffer_deinit(&url);
    return code == CURLE_OK;
}

/* ---- paths and bodies ---- */

void cli_append_path(struct buffer *path, struct bytes part)
{
    for (size_t i = 0; i < part.size; i++) {
        uint8_t c = (uint8_t)part.data[i];
        bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                        (c >= 'a' && c <= 'z') || c == '-' || c == '_' || c == '~';

        if (is_plain)
            buffer_append(path, &c, 1);
        else
            buffer_printf(path, "%%%02X", c);
    }
}

void cli_append_query(struct buffer *path, const char *name, struct bytes value)
{
    bool is_first = !path->size || !memchr(path->data, '?', path->size);

    buffer_append_text(path, is_first ? "?" : "&");
    buffer_append_text(path, name);
    buffer_append_text(path, "=");
    cli_append_path(path, value);
}

const char *cli_text(struct buffer *buffer)
{
    buffer_append(buffer, "", 1);
    if (buffer_failed(buffer))
        return "";
    buffer->size--;
    return buffer->data;
}
