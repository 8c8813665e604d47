/*
 * api.h - the service's HTTP face: docs/api.md on top of a node.
 *
 *     struct api_options options = {.config = &config, .metrics = metrics, .node = node};
 *     struct api *api;
 *     if (api_start(&options, &api, &error))
 *         return fail(error.text);
 *     ...
 *     api_stop(api);
 *     node_stop(node);
 *
 * Threads    api_start and api_stop from one thread; the rest from any.
 */
#ifndef TICKWHEEL_API_API_H
#define TICKWHEEL_API_API_H

#include "api/core/options.h"
#include "api/core/route.h"

struct api;

/* Starts to listen on the configured address. */
enum error_code api_start(const struct api_options *options, struct api **ret_api,
                          struct error *ret_error);

/* Replaces the tokens, and takes them unless it fails. For an API that was started with tokens.
 * May be called from any thread. */
enum error_code api_replace_tokens(struct api *api, struct tokens *tokens);

/* Sets the limits of a tenant, if the tokens have any for it. May be called from any thread. */
void api_tenant_limits(struct api *api, struct bytes tenant, struct tenant_limits *limits);

/* Sets the certificate for new connections. For an API that was started with one. */
void api_replace_identity(struct api *api, struct tls_identity *identity);

/* Stops accepting, lets requests in flight end for `config.drain_ms`, and waits for every answer
 * of the node. Call it before node_stop. */
void api_stop(struct api *api);

/* Appends the OpenAPI document as `GET /openapi.json` answers it. */
void api_format_openapi(struct buffer *out);

/* Appends the OpenAPI document as `GET /openapi.strict.json` answers it. */
void api_format_openapi_strict(struct buffer *out);

/* Appends the overview of all routes in docs/api.md, a list in Markdown. */
void api_format_routes(struct buffer *out);

/* Returns the port: the configured one, or the one that the system chose for 0. */
uint16_t api_port(const struct api *api);

/* Table of routes, a row for each endpoint: core/routes.def. */
extern const struct route routes[];
extern const size_t routes_count;

#endif
