/* client.c - requests to the daemon, by libcurl, and the problems that it answers with. */
#include "cli/cli.h"

#include "base/number.h"
#include "cli/value.h"

#include <curl/curl.h>

#define CLIENT_CONNECT_TIMEOUT_MS 10000L

struct client_transfer {
    struct cli *cli;
    const struct cli_request *request;
    struct cli_answer *answer;
    bool is_too_large;
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

static size_t client_on_header(char *data, size_t size, size_t count, void *context)
{
    struct client_transfer *transfer = context;
    struct bytes line = {data, size * count}, name = bytes_cut(&line, ':');

    if (name.size == 11 && strncasecmp(name.data, "Retry-After", 11) == 0) {
        while (line.size && (line.data[line.size - 1] == '\n' || line.data[line.size - 1] == '\r'))
            line.size--;
        number_parse(bytes_trim(line), 10, &transfer->answer->retry_after_s);
    }
    return size * count;
}

/* libcurl asks about once a second, and after each part: a signal to stop ends the transfer. */
static int client_on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct client_transfer *transfer = context;

    (void)a, (void)b, (void)c, (void)d;
    return !cli_wait(transfer->cli, 0);
}

static bool client_set(CURL *curl, struct client_transfer *transfer, const char *url,
                       struct curl_slist *headers)
{
    const struct cli *cli = transfer->cli;
    const struct cli_request *request = transfer->request;
    CURLcode code = CURLE_OK;

#define SET(option, value) code = code ? code : curl_easy_setopt(curl, option, value)
    SET(CURLOPT_URL, url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https"); /* no redirect is followed: it would get the token */
    SET(CURLOPT_CUSTOMREQUEST, request->method);
    if (request->body.data) {
        SET(CURLOPT_POSTFIELDS, request->body.data);
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.size);
    }
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_USERAGENT, "tickwheel/" TICKWHEEL_VERSION);
    SET(CURLOPT_CONNECTTIMEOUT_MS, CLIENT_CONNECT_TIMEOUT_MS);
    SET(CURLOPT_TIMEOUT_MS, request->sink ? 0L : (long)cli->settings.timeout_ms);
    SET(CURLOPT_NOSIGNAL, 1L);
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

/* NULL when out of memory; the list that was begun is freed. */
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
    if (*cli->settings.token)
        list = client_add(list, failed, "Authorization: Bearer ", cli->settings.token);
    if (request->header)
        list = client_add(list, failed, "", request->header);
    return list;
}

static enum cli_exit client_failed(struct cli *cli, const struct client_transfer *transfer,
                                   CURLcode code)
{
    const char *url = cli->settings.url;

    if (transfer->is_too_large)
        return cli_complain(CLI_EXIT_UNAVAILABLE, "the answer is larger than %u MiB",
                            (unsigned)(CLI_ANSWER_BYTES_MAX >> 20));
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
    return cli_complain(CLI_EXIT_UNAVAILABLE, "%s: %s", url, curl_easy_strerror(code));
}

enum cli_exit cli_send(struct cli *cli, const struct cli_request *request,
                       struct cli_answer *ret_answer)
{
    struct client_transfer transfer = {.cli = cli, .request = request, .answer = ret_answer};
    struct buffer url;

    *ret_answer = (struct cli_answer){0};
    buffer_init(&url);
    buffer_append_text(&url, cli->settings.url);
    buffer_append_text(&url, request->path);
    if (!cli->curl)
        cli->curl = curl_easy_init();
    else
        curl_easy_reset(cli->curl); /* the connection stays */
    bool failed = !cli->curl;
    struct curl_slist *headers = client_headers(cli, request, &failed);
    const char *text = cli_text(&url);
    CURLcode code = CURLE_OUT_OF_MEMORY;
    if (!failed && *text && client_set(cli->curl, &transfer, text, headers))
        code = curl_easy_perform(cli->curl);
    long status = 0;
    if (code == CURLE_OK || code == CURLE_WRITE_ERROR)
        curl_easy_getinfo(cli->curl, CURLINFO_RESPONSE_CODE, &status);
    ret_answer->status = (int)status;
    ret_answer->is_json = cli_is_json(buffer_bytes(&ret_answer->body), NULL, NULL);
    curl_slist_free_all(headers);
    buffer_deinit(&url);
    return code ? client_failed(cli, &transfer, code) : CLI_EXIT_DONE;
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

enum cli_exit cli_complain_of(const struct cli_answer *answer)
{
    struct bytes problem = buffer_bytes(&answer->body);
    enum cli_exit code = cli_exit_of(answer->status);

    if (!answer->is_json || cli_member(problem, "title").size == 0)
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

void cli_append_raw(struct buffer *body, const char *name, struct bytes raw)
{
    if (body->size && body->data[body->size - 1] != '{')
        buffer_append_text(body, ",");
    json_append_string(body, bytes_of(name));
    buffer_append_text(body, ":");
    buffer_append_bytes(body, raw);
}

void cli_append_member(struct buffer *body, const char *name, struct bytes value)
{
    cli_append_raw(body, name, (struct bytes){"", 0});
    json_append_string(body, value);
}

const char *cli_text(struct buffer *buffer)
{
    buffer_append(buffer, "", 1);
    if (buffer_failed(buffer))
        return "";
    buffer->size--;
    return buffer->data;
}
