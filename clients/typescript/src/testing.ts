/**
 * Tests of schedules: a daemon whose clock stands until it is moved, and a receiver that records. For node:test, Jest and
 * any other runner.
 *
 *     const tickwheel = await VirtualTickwheel.start("2027-03-01T00:00Z");
 *     await tickwheel.client.create({target: tickwheel.url("/remind"), cron: "0 9 * * *", timezone: "Europe/Berlin"});
 *     await tickwheel.advance("31d");
 *     assert.equal(tickwheel.delivered("/remind").length, 31);
 *     await tickwheel.close();
 *
 * The daemon is the program that TICKWHEELD names, or `tickwheeld` in PATH.
 */
import {spawn, type ChildProcess} from "node:child_process";
import {once} from "node:events";
import {mkdtemp, rm} from "node:fs/promises";
import {createServer, type IncomingHttpHeaders, type Server} from "node:http";
import type {AddressInfo} from "node:net";
import {tmpdir} from "node:os";
import {join} from "node:path";
import {setTimeout as sleep} from "node:timers/promises";
import {Client} from "./client.js";

const START_MS = 60_000; // how long a start may take

/** A webhook that arrived; `due` is when it was due, `status` what it was answered. */
export interface Delivery {
  path: string;
  due: Date;
  attempt: number;
  headers: IncomingHttpHeaders;
  body: string;
  status: number;
}

/** What happened since the last advance; `failed` counts attempts. */
export interface Advanced {
  now: Date;
  fired: number;
  delivered: number;
  failed: number;
}

interface Answer {
  now: string;
  to: string;
  done: boolean;
  fired: number;
  delivered: number;
  failed: number;
  detail?: string;
}

/** A daemon with a virtual clock, and a receiver. */
export class VirtualTickwheel {
  /** Every webhook that came, in order. */
  readonly received: Delivery[] = [];
  /** The status of the answer to a webhook, by its path. */
  answer: (path: string) => number | Promise<number> = () => 200;
  readonly #folder: string;
  readonly #daemon: ChildProcess;
  readonly #hooks: Server;
  #log = "";
  #url = "";
  #client: Client | undefined;

  private constructor(folder: string, start: string, flags: string[]) {
    this.#folder = folder;
    this.#daemon = spawn(process.env.TICKWHEELD || "tickwheeld",
      ["--clock", `virtual=${start}`, "--listen-port", "0", "--data-folder", join(folder, "data"), ...flags],
      {stdio: ["ignore", "ignore", "pipe"], // TICKWHEEL_... would be settings of the daemon
       env: Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("TICKWHEEL_")))});
    this.#daemon.stderr?.setEncoding("utf8").on("data", (text: string) => { this.#log += text; });
    this.#daemon.on("error", (error) => { this.#log += error.message; });
    this.#hooks = createServer(async (request, response) => {
      let body = "";
      for await (const part of request.setEncoding("utf8")) body += part;
      const {url: path = "", headers} = request;
      const status = await this.answer(path);
      this.received.push({path, headers, body, status, due: new Date(String(headers["tickwheel-due"])),
                          attempt: Number(headers["tickwheel-attempt"])});
      response.writeHead(status).end();
    });
  }

  /** Starts a daemon whose clock stands at `start`; `flags` are further flags of tickwheeld. */
  static async start(start = "2027-01-01T00:00Z", ...flags: string[]): Promise<VirtualTickwheel> {
    const tickwheel = new VirtualTickwheel(await mkdtemp(join(tmpdir(), "tickwheel-virtual-")), start, flags);
    try {
      await once(tickwheel.#hooks.listen(0, "127.0.0.1"), "listening");
      await tickwheel.#awaitStart();
      tickwheel.#client = new Client(tickwheel.#url);
    } catch (error) {
      await tickwheel.close();
      throw error;
    }
    return tickwheel;
  }

  async #awaitStart(): Promise<void> {
    for (const until = Date.now() + START_MS; Date.now() < until; await sleep(5)) {
      if (this.#hasEnded()) throw new Error(`tickwheeld ended: ${this.#log}`);
      const found = /event=started listen=(\S+)/.exec(this.#log);
      if (!found) continue;
      this.#url = `http://${found[1]}`;
      if ((await fetch(`${this.#url}/readyz`)).ok) return;
    }
    throw new Error("tickwheeld did not start");
  }

  #hasEnded(): boolean {
    return this.#daemon.pid === undefined || this.#daemon.exitCode !== null || this.#daemon.signalCode !== null;
  }

  /** A client of the daemon. */
  get client(): Client {
    return this.#client!;
  }

  /** The target of webhooks that are recorded. */
  url(path = "/"): string {
    return `http://127.0.0.1:${(this.#hooks.address() as AddressInfo).port}${path}`;
  }

  /** The time of timers. */
  async now(): Promise<Date> {
    const answer = await fetch(`${this.#url}/v1/clock`);
    return new Date((await answer.json() as Answer).now);
  }

  /** Lets time pass, a duration such as "3d". Returns when everything that is due has been done. */
  advance(by: string): Promise<Advanced> {
    return this.#move({by});
  }

  /** Moves the clock to a time, or to "next": the next firing or retry. */
  advanceTo(to: string | Date): Promise<Advanced> {
    return this.#move({to: to instanceof Date ? to.toISOString() : to});
  }

  async #move(body: {by: string} | {to: string}): Promise<Advanced> {
    const sum = {fired: 0, delivered: 0, failed: 0};
    for (;;) {
      const response = await fetch(`${this.#url}/v1/clock/advance`, {
        method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});
      const answer = await response.json() as Answer;
      if (!response.ok) throw new RangeError(answer.detail);
      sum.fired += answer.fired;
      sum.delivered += answer.delivered;
      sum.failed += answer.failed;
      if (answer.done) return {now: new Date(answer.now), ...sum};
      body = {to: answer.to};
    }
  }

  /** The webhooks of this path, or of all, that were answered with success. */
  delivered(path?: string): Delivery[] {
    return this.received.filter((one) => (path === undefined || one.path === path) && one.status >= 200 && one.status < 300);
  }

  /** Ends the daemon and the receiver, and removes the folder. */
  async close(): Promise<void> {
    if (!this.#hasEnded()) {
      this.#daemon.kill("SIGKILL");
      await once(this.#daemon, "exit");
    }
    this.#hooks.closeAllConnections();
    this.#hooks.close();
    await rm(this.#folder, {recursive: true, force: true});
  }
}
