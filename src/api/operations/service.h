/*
 * service.h - the calls about the service itself: health, readiness, metrics, statistics, the
 * tenants, the cluster, the OpenAPI document, backups.
 */
#ifndef TICKWHEEL_API_OPERATIONS_SERVICE_H
#define TICKWHEEL_API_OPERATIONS_SERVICE_H

#include "api/core/call.h"

void service_healthz(struct call *call);
void service_readyz(struct call *call);
void service_metrics(struct call *call);
void service_problem(struct call *call);
void service_openapi(struct call *call);
void service_openapi_strict(struct call *call);
void service_index(struct call *call);

/* GET /v1/stats: stats.c. */
void stats_get(struct call *call);

/* GET /v1/cluster: cluster.c. */
void cluster_get(struct call *call);

/* GET /v1/tenants: tenants.c. */
void tenants_list(struct call *call);

/* POST /v1/admin/backup, and /v1/admin/maintenance: admin.c. */
void admin_backup(struct call *call);
void admin_closed(struct call *call);
void admin_maintenance(struct call *call);
void admin_maintenance_begin(struct call *call);
void admin_maintenance_end(struct call *call);

#endif
