/* survey_failures.c - what fails at a node, and at several of them together. */
#include "engine/survey.h"

#include <stdlib.h>

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

static int failure_compare_targets(const struct survey *survey, const struct survey_failure *a,
                                   const struct survey_failure *b)
{
    const int order = bytes_compare(survey_origin(survey, a), survey_origin(survey, b));

    return order ? order : bytes_compare(survey_path(survey, a), survey_path(survey, b));
}

/* Orders failures of one target with the worst first. */
static int failure_compare(const void *left, const void *right, void *survey)
{
    const struct survey_failure *a = left, *b = right;
    const int order = failure_compare_targets(survey, a, b);

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
    qsort_r(failures, survey->failure_count, sizeof(*failures), failure_compare, survey);
    for (size_t i = 0; i < survey->failure_count; i++) {
        const struct survey_failure *last = kept > 0 ? &failures[kept - 1] : NULL;

        if (last && failure_compare_targets(survey, last, &failures[i]) == 0)
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
