/*
 * node_survey.h - answers of a node about itself.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_NODE_NODE_SURVEY_H
#define TICKWHEEL_NODE_NODE_SURVEY_H

#include "node/node.h"

/* Answers a survey of this node by `done`, for deliveries on another thread, else before it
 * returns. If this returns an error, `done` is not called. */
enum error_code node_survey_answer(struct node *node, struct node_request *request);

#endif
