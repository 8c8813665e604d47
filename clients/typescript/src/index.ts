/**
 * Client of tickwheeld, the durable timer service.
 *
 *     const timers = new Client("http://localhost:8463");
 *     const timer = await timers.create({target: "https://shop.example/recheck", after: "30m"});
 *     await timers.cancel({id: timer.id});
 */
export {Client, type ClientOptions} from "./client.js";
export * from "./errors.js";
export * from "./models.js";
export {type DrizzleTransaction, type PgConnection, type PrismaTransaction, type Query, type SqlTag, Transaction} from "./transaction.js";
export {Verifier, type Handler} from "./webhook.js";
export {Dead, Retry, Worker, type WorkerOptions} from "./worker.js";
