/*
 * ui.c - serves the dashboard: files of this folder, which are part of the program.
 *
 * The page calls the API from the browser, with the token that its user types; the daemon does
 * nothing for it that it does not do for other clients.
 */
#include "api/core/call.h"

/* What a browser may do with the page. The page's own policy is stricter, but cannot say who may
 * frame it. */
#define UI_POLICY "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

#define UI_PAGE   "text/html; charset=utf-8"
#define UI_SCRIPT "text/javascript; charset=utf-8"

/* X(array, file, content type): CMakeLists.txt makes an array of each file in this folder, and of
 * docs/runbooks.md. */
#define UI_FILE_LIST(X)                                     \
    X(ui_index_html, "index.html", UI_PAGE)                 \
    X(ui_style_css, "style.css", "text/css; charset=utf-8") \
    X(ui_icon_svg, "icon.svg", "image/svg+xml")             \
    X(ui_api_js, "api.js", UI_SCRIPT)                       \
    X(ui_app_js, "app.js", UI_SCRIPT)                       \
    X(ui_calendars_js, "calendars.js", UI_SCRIPT)           \
    X(ui_change_js, "change.js", UI_SCRIPT)                 \
    X(ui_chart_js, "chart.js", UI_SCRIPT)                   \
    X(ui_cluster_js, "cluster.js", UI_SCRIPT)               \
    X(ui_coming_js, "coming.js", UI_SCRIPT)                 \
    X(ui_counts_js, "counts.js", UI_SCRIPT)                 \
    X(ui_create_js, "create.js", UI_SCRIPT)                 \
    X(ui_dead_js, "dead.js", UI_SCRIPT)                     \
    X(ui_deliveries_js, "deliveries.js", UI_SCRIPT)         \
    X(ui_element_js, "element.js", UI_SCRIPT)               \
    X(ui_exact_js, "exact.js", UI_SCRIPT)                   \
    X(ui_flows_js, "flows.js", UI_SCRIPT)                   \
    X(ui_hold_js, "hold.js", UI_SCRIPT)                     \
    X(ui_keys_js, "keys.js", UI_SCRIPT)                     \
    X(ui_life_js, "life.js", UI_SCRIPT)                     \
    X(ui_limits_js, "limits.js", UI_SCRIPT)                 \
    X(ui_live_js, "live.js", UI_SCRIPT)                     \
    X(ui_load_js, "load.js", UI_SCRIPT)                     \
    X(ui_morph_js, "morph.js", UI_SCRIPT)                   \
    X(ui_named_js, "named.js", UI_SCRIPT)                   \
    X(ui_now_js, "now.js", UI_SCRIPT)                       \
    X(ui_parts_js, "parts.js", UI_SCRIPT)                   \
    X(ui_past_js, "past.js", UI_SCRIPT)                     \
    X(ui_pick_js, "pick.js", UI_SCRIPT)                     \
    X(ui_recurrence_js, "recurrence.js", UI_SCRIPT)         \
    X(ui_runbooks, "runbooks", UI_PAGE)                     \
    X(ui_schedules_js, "schedules.js", UI_SCRIPT)           \
    X(ui_start_js, "start.js", UI_SCRIPT)                   \
    X(ui_timer_js, "timer.js", UI_SCRIPT)                   \
    X(ui_timers_js, "timers.js", UI_SCRIPT)                 \
    X(ui_times_js, "times.js", UI_SCRIPT)

#define X(array, file, type)   \
    extern const char array[]; \
    extern const size_t array##_size;
UI_FILE_LIST(X)
#undef X

struct ui_file {
    const char *name;
    const char *type;
    const char *data;
    const size_t *size;
};

static const struct ui_file ui_files[] = {
#define X(array, file, type) {file, type, array, &array##_size},
    UI_FILE_LIST(X)
#undef X
};

static void ui_serve(struct call *call, struct bytes name)
{
    for (size_t i = 0; i < sizeof(ui_files) / sizeof(*ui_files); i++) {
        const struct ui_file *file = &ui_files[i];

        if (!bytes_equal(name, bytes_of(file->name)))
            continue;
        struct http_response response = {
            .status = 200, .content_type = file->type, .lent = {file->data, *file->size}};
        http_response_header(&response, "Content-Security-Policy", "%s", UI_POLICY);
        http_response_header(&response, "X-Content-Type-Options", "nosniff");
        http_response_header(&response, "Referrer-Policy", "no-referrer");
        /* The files belong together: after an upgrade none may come from a cache. */
        http_response_header(&response, "Cache-Control", "no-cache");
        call_answer(call, &response);
        return;
    }
    call_answer_error(call, ERROR_NOT_FOUND, "The dashboard has no such file");
}

void ui_page(struct call *call)
{
    ui_serve(call, bytes_of("index.html"));
}

void ui_file(struct call *call)
{
    ui_serve(call, call->parameter);
}
