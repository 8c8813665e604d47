/*
 * wire_testing.h - for tests: parts of commands with every field, in order, so that the compiler
 * warns when one is missing.
 */
#ifndef TICKWHEEL_CLUSTER_WIRE_TESTING_H
#define TICKWHEEL_CLUSTER_WIRE_TESTING_H

#include "engine/command.h"

static const struct command_created no_result = {ERROR_NONE, false, false, {{0}, 0, 0}};
static const struct command_event no_event = {{NULL, 0}, ERROR_NONE, {0, 0}};
static const struct forecast no_forecast = {{0}, 0, 0, 0, NULL, 0, 0, 0, 0, {0}};
static const struct survey_row no_row = {0, 0, 0, 0, {0}, false, 0};
static const struct survey no_survey = {
    SURVEY_QUEUES,       0,     {NULL, 0}, NULL, 0, NULL, 0,    0,
    {NULL, 0, 0, false}, false, 0,         NULL, 0, 0,    NULL, 0};
static const struct command_answer an_answer = {
    ANSWER_NACK, BYTES("0123456789abcdef0123456789abcdef"), BYTES("no such order"), 1000};

#endif
