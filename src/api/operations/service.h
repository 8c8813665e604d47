/*
 * service.h - the calls about the service itself: health, readiness, metrics, the OpenAPI document.
 */
#ifndef TICKWHEEL_API_OPERATIONS_SERVICE_H
#define TICKWHEEL_API_OPERATIONS_SERVICE_H

#include "api/core/call.h"

void service_healthz(struct call *call);
void service_readyz(struct call *call);
void service_metrics(struct call *call);
void service_openapi(struct call *call);
void service_index(struct call *call);

/* src/api/operations/openapi.json, made part of the program when it is built. */
extern const char openapi_document[];
extern const size_t openapi_document_size;

#endif
