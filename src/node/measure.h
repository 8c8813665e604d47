/*
 * measure.h - what a delivery that has ended adds to the metrics: how late it was, stage by stage,
 * and how its target answered.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_NODE_MEASURE_H
#define TICKWHEEL_NODE_MEASURE_H

#include "engine/delivery.h"
#include "ops/metrics.h"

void measure_delivery(struct metrics *metrics, const struct delivery *delivery);

#endif
