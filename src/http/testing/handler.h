/*
 * handler.h - a handler for tests of the server: what it does depends on the path.
 *
 *     /vouch    vouches for the connection, and answers 200, or 503 if there are too many
 *     /hello    answers "hello" at the end
 *     /echo     answers what the body was
 *     /early    answers 404 in begin
 *     /limit    answers 413 within a body of more than 10 bytes
 *     /park     the test answers (handler_answer)
 *     /held     pauses in the body until the test resumes it (handler_resume)
 *     /bites    takes 3 bytes at a time, pausing; another thread resumes; echoes
 *     /twice    at the end, another thread resumes it; answers then
 *     /thread   answers the number of its thread
 *     /slow     answers after HANDLER_SLOW_NS, during which the thread does nothing else
 *     /turned   answers "turned" at the end of the thread's turn, together with others
 *     /hangup   hangs up within the body
 *     /big      answers 8 MiB
 *     /lent     answers a constant text
 *     /stream   a stream of what the test says (handler_say), until it says "end"
 *     /flood    a stream that always has more
 *     /failed   answers with a body for which memory was short
 *
 * Threads    Those of the server, and the test's.
 */
#ifndef TICKWHEEL_HTTP_TESTING_HANDLER_H
#define TICKWHEEL_HTTP_TESTING_HANDLER_H

#include "http/server.h"

struct handler;

#define HANDLER_BIG_SIZE (8u << 20)
#define HANDLER_SLOW_NS  3000000

/* A server with this handler at a free port; the fields of `options` that a test does not set (0)
 * get a sensible value. */
struct handler *handler_start(const struct http_options *options);

/* Stops the server if handler_stop was not called, and checks that each request was closed. */
void handler_destroy(struct handler *handler);

void handler_stop(struct handler *handler);

struct http_server *handler_server(struct handler *handler);
uint16_t handler_port(struct handler *handler);

/* Waits until so many requests are parked, or held. */
void handler_await_parked(struct handler *handler, size_t count);
void handler_await_closed(struct handler *handler, size_t count);

/* Waits until the server told of so many clients that left; and how many these are now. */
void handler_await_left(struct handler *handler, size_t count);
size_t handler_left(struct handler *handler);

/* Answers the request that was parked first. */
void handler_answer(struct handler *handler);

/* Resumes the request that was held first. */
void handler_resume(struct handler *handler);

/* One or the other, as the first parked request needs it. */
void handler_answer_or_resume(struct handler *handler);

/* Has the stream that was begun first send a text. */
void handler_say(struct handler *handler, const char *text);

/* Bytes that a flood has given, and signs of life that streams were asked for. */
size_t handler_flooded(struct handler *handler);

/* Requests that `end` was called for, and the last refusal. */
size_t handler_ended(struct handler *handler);
enum http_refusal handler_refusal(struct handler *handler);

#endif
