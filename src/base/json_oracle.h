/*
 * json_oracle.h - jansson beside json.h, for tests and benchmarks only: its names that are also
 * ours become JANSSON_...
 */
#ifndef TICKWHEEL_BASE_JSON_ORACLE_H
#define TICKWHEEL_BASE_JSON_ORACLE_H

#define JSON_OBJECT JANSSON_OBJECT
#define JSON_ARRAY  JANSSON_ARRAY
#define JSON_STRING JANSSON_STRING
#define JSON_TRUE   JANSSON_TRUE
#define JSON_FALSE  JANSSON_FALSE
#define JSON_NULL   JANSSON_NULL
#include <jansson.h>
#undef JSON_OBJECT
#undef JSON_ARRAY
#undef JSON_STRING
#undef JSON_TRUE
#undef JSON_FALSE
#undef JSON_NULL

#endif
