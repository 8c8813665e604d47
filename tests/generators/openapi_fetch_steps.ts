// The steps of generators_test.py with openapi-fetch and the types that openapi-typescript makes.
import createClient from "openapi-fetch";
import type { components, paths } from "./tickwheel.js";

const [url, token, queue] = process.argv.slice(2) as [string, string, string];
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${token}` } });

function present<T>(value: T | undefined, problem?: unknown): T {
    if (value === undefined) throw new Error(JSON.stringify(problem));
    return value;
}

function check(holds: boolean, what: unknown): void {
    if (!holds) throw new Error(JSON.stringify(what));
}

const made = await client.POST("/v1/timers", {
    body: {
        after: "1h", target: `queue:${queue}`, key: queue, payload: { order: 42 }, labels: { queue },
        retry: { max_attempts: 3, base: "2s" },
    },
});
const timer: components["schemas"]["Timer"] = present(made.data, made.error);
check(timer.state === "scheduled" && timer.retry.max_attempts === 3, timer);

const patch = { params: { path: { id: timer.id }, header: { "If-Match": '"1"' } }, body: { after: "2h" } };
const changed = present((await client.PATCH("/v1/timers/{id}", patch)).data);
check(changed.version === 2 && changed.due > timer.due, changed);
const late = await client.PATCH("/v1/timers/{id}", patch);
check(late.error?.type === "/problems/version-mismatch", late.error);

const page = present((await client.GET("/v1/timers", {
    params: { query: { label: [`queue:${queue}`], limit: 10 } },
})).data);
check(page.timers.length === 1 && page.timers[0]?.id === timer.id && page.next === null, page);

const path = { params: { path: { id: timer.id } } };
check(present((await client.DELETE("/v1/timers/{id}", path)).data).state === "cancelled", "cancel");
check((await client.GET("/v1/timers/{id}", path)).response.status === 410, "gone");

await client.POST("/v1/timers", {
    body: { at: new Date().toISOString(), target: `queue:${queue}`, payload: { order: 43 } },
});
const worker = { params: { path: { name: queue } } };
const leased = await client.POST("/v1/queues/{name}/lease", { ...worker, body: { wait: "10s", lease: "1m" } });
const item = present(leased.data?.items[0], leased.error);
check((item.payload as { order: number }).order === 43, item);
const done = present((await client.POST("/v1/queues/{name}/ack", { ...worker, body: { receipts: [item.receipt] } })).data);
check(done.ok === 1 && done.results[0] === "ok", done);
