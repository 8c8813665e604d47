/* survey_rows.c - rows and failures of a survey, and of several surveys as one. */
#include "engine/survey.h"

#include <assert.h>
#include <stdlib.h>

void survey_deinit(struct survey *survey)
{
    free(survey->rows);
    survey->rows = NULL;
    survey->row_count = survey->row_capacity_ = 0;
    free(survey->failures);
    survey->failures = NULL;
    survey->failure_count = survey->failure_capacity_ = 0;
    free(survey->numbers);
    survey->numbers = NULL;
    survey->number_count = 0;
    buffer_deinit(&survey->names);
}

/* ---- rows ---- */

struct survey_row *survey_append(struct survey *survey, struct bytes name)
{
    assert(survey->row_count <= survey->row_capacity_);
    if (survey->row_count == survey->row_capacity_) {
        const size_t capacity = survey->row_capacity_ ? 2 * survey->row_capacity_ : 64;
        struct survey_row *rows = realloc(survey->rows, capacity * sizeof(*rows));

        if (!rows) {
            survey->names.failed = true;
            return NULL;
        }
        survey->rows = rows;
        survey->row_capacity_ = capacity;
    }
    struct survey_row *row = &survey->rows[survey->row_count++];
    *row = (struct survey_row){
        .name_at = survey->names.size, .name_size = name.size, .oldest = WALL_NEVER};
    buffer_append_bytes(&survey->names, name);
    return row;
}

struct survey_row *survey_add(struct survey *survey, struct bytes name)
{
    if (survey->row_count < survey_rows_max(survey->kind))
        return survey_append(survey, name);
    survey->is_cut = true;
    return NULL;
}

static int survey_compare_rows(const void *left, const void *right, void *survey)
{
    return bytes_compare(survey_name(survey, left), survey_name(survey, right));
}

static void survey_merge_rows(struct survey *survey)
{
    const size_t most = survey_rows_max(survey->kind);
    size_t count = 0;

    if (buffer_failed(&survey->names) || survey->row_count == 0)
        return;
    qsort_r(survey->rows, survey->row_count, sizeof(*survey->rows), survey_compare_rows, survey);
    for (size_t i = 0; i < survey->row_count; i++) {
        const struct survey_row *more = &survey->rows[i];
        struct survey_row *row = &survey->rows[count ? count - 1 : 0];

        if (count == 0 || survey_compare_rows(row, more, survey) != 0) {
            survey->rows[count++] = *more;
            continue;
        }
        row->ready += more->ready;
        row->taken += more->taken;
        row->workers += more->workers;
        row->oldest = wall_min(row->oldest, more->oldest);
        row->is_spilled = row->is_spilled || more->is_spilled;
    }
    survey->is_cut = survey->is_cut || count > most;
    survey->row_count = count < most ? count : most;
}

/* ---- what holds timers back ---- */

/* The number of the reason 1, the size of the tenant's name 1, the name, and the target. */
void survey_put_held(const struct survey_held *held, struct buffer *out)
{
    assert(held->tenant.size <= UINT8_MAX);
    buffer_append_le(out, (uint64_t)held->reason, 1);
    buffer_append_le(out, held->tenant.size, 1);
    buffer_append_bytes(out, held->tenant);
    buffer_append_bytes(out, held->target);
}

bool survey_get_held(struct bytes name, struct survey_held *ret_held)
{
    if (name.size < 2 || (uint8_t)name.data[0] >= WAIT_REASONS ||
        (uint8_t)name.data[1] > name.size - 2)
        return false;
    const size_t tenant_size = (uint8_t)name.data[1];
    *ret_held = (struct survey_held){
        .reason = (enum wait_reason)(uint8_t)name.data[0],
        .tenant = {name.data + 2, tenant_size},
        .target = {name.data + 2 + tenant_size, name.size - 2 - tenant_size},
    };
    return true;
}

/* ---- failures ---- */

void survey_add_failure(struct survey *survey, const struct survey_failure *failure,
                        struct bytes origin, struct bytes path, struct bytes error)
{
    if (survey->failure_count == survey->failure_capacity_) {
        const size_t capacity = survey->failure_capacity_ ? 2 * survey->failure_capacity_ : 16;
        struct survey_failure *failures =
            realloc(survey->failures, capacity * sizeof(*survey->failures));

        if (!failures) {
            survey->names.failed = true;
            return;
        }
        survey->failures = failures;
        survey->failure_capacity_ = capacity;
    }
    struct survey_failure *added = &survey->failures[survey->failure_count++];
    *added = *failure;
    added->at = survey->names.size;
    added->origin_size = origin.size;
    added->path_size = path.size;
    added->error_size = error.size;
    buffer_append_bytes(&survey->names, origin);
    buffer_append_bytes(&survey->names, path);
    buffer_append_bytes(&survey->names, error);
}

static int survey_compare_targets(const struct survey *survey, const struct survey_failure *a,
                                  const struct survey_failure *b)
{
    const int order = bytes_compare(survey_origin(survey, a), survey_origin(survey, b));

    return order ? order : bytes_compare(survey_path(survey, a), survey_path(survey, b));
}

/* Compares failures for sorting by target; for one target the worst comes first. */
static int survey_compare_failures(const void *left, const void *right, void *survey)
{
    const struct survey_failure *a = left, *b = right;
    const int order = survey_compare_targets(survey, a, b);

    if (order)
        return order;
    if (!a->state != !b->state)
        return a->state ? -1 : 1;
    if (a->failures != b->failures)
        return a->failures > b->failures ? -1 : 1;
    return (a->wait_ms < b->wait_ms) - (a->wait_ms > b->wait_ms);
}

void survey_sort_failures(struct survey *survey)
{
    struct survey_failure *failures = survey->failures;
    size_t kept = 0, origins = 0;

    if (buffer_failed(&survey->names) || survey->failure_count == 0)
        return;
    qsort_r(failures, survey->failure_count, sizeof(*failures), survey_compare_failures, survey);
    for (size_t i = 0; i < survey->failure_count; i++) {
        const struct survey_failure *last = kept > 0 ? &failures[kept - 1] : NULL;

        if (last && survey_compare_targets(survey, last, &failures[i]) == 0)
            continue;
        if (!last || !bytes_equal(survey_origin(survey, last), survey_origin(survey, &failures[i])))
            origins++;
        survey->is_cut = survey->is_cut || origins > SURVEY_ROWS_MAX;
        if (origins > SURVEY_ROWS_MAX)
            break;
        failures[kept++] = failures[i];
    }
    survey->failure_count = kept;
}

/* ---- several surveys ---- */

void survey_join(struct survey *survey, const struct survey *part)
{
    for (size_t i = 0; i < part->row_count; i++) {
        const struct survey_row *from = &part->rows[i];
        struct survey_row *row = survey_append(survey, survey_name(part, from));

        if (!row)
            return;
        *(part->kind == SURVEY_WORKERS ? &row->workers : &row->ready) = from->ready;
        row->taken = from->taken;
        row->oldest = from->oldest;
        row->is_spilled = from->is_spilled;
    }
    for (size_t i = 0; i < part->failure_count; i++) {
        const struct survey_failure *failure = &part->failures[i];

        survey_add_failure(survey, failure, survey_origin(part, failure),
                           survey_path(part, failure), survey_error(part, failure));
    }
    survey->is_cut = survey->is_cut || part->is_cut;
}

void survey_merge(struct survey *survey)
{
    survey_merge_rows(survey);
    survey_sort_failures(survey);
}
