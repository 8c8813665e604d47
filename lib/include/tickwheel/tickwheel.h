/*
 * tickwheel.h - the whole of libtickwheel in one include.
 *
 * Each header stands alone; a program that uses one wheel may include that one only.
 */
#ifndef TICKWHEEL_TICKWHEEL_H
#define TICKWHEEL_TICKWHEEL_H

#include <tickwheel/clock.h>
#include <tickwheel/driver.h>
#include <tickwheel/executor.h>
#include <tickwheel/fifo.h>
#include <tickwheel/hashed.h>
#include <tickwheel/hierarchy.h>
#include <tickwheel/purgatory.h>
#include <tickwheel/ring.h>
#include <tickwheel/runner.h>
#include <tickwheel/version.h>
#include <tickwheel/wheel.h>

#endif
