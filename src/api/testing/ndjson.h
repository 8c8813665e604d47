/*
 * ndjson.h - batches for tests: makes their lines, and looks at the lines of their answers.
 */
#ifndef TICKWHEEL_API_TESTING_NDJSON_H
#define TICKWHEEL_API_TESTING_NDJSON_H

#include "api/testing/fixture.h"

#define NDJSON_PATH    "/v1/timers/batch"
#define NDJSON_MINIMAL FIXTURE_NDJSON "Prefer: return=minimal\r\n"
#define NDJSON_ID_LINE 36 /* {"id":"..."} and its newline */

/* Lines "begin .. end - 1", each with its number as payload. */
void lines_append(struct buffer *body, unsigned begin, unsigned end);

/* One line of a text, without its newline; and how many there are. */
struct bytes lines_at(struct bytes text, size_t index);
size_t lines_count(struct bytes text);

bool bytes_contain(struct bytes text, const char *part);

/* Checks that a line of an answer is the id of a timer with this payload. */
void lines_check_created(struct api_fixture *fixture, struct bytes line, unsigned payload);

/* Sends until the node holds as many commands as it may get of one batch. Returns what is left. */
struct bytes batch_send_until_held(struct api_fixture *fixture, struct bytes body);

#endif
