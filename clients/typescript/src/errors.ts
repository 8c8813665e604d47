import type {Timer} from "./models.js";

/** The base of all errors of this package; `type` is the last part of the problem's type. */
export class TickwheelError extends Error {
  readonly type: string = "error";

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No answer came, and the request has no effect that a repetition would double. */
export class Unreachable extends TickwheelError {
  override readonly type = "unreachable";
}

/**
 * The answer to a conditional change was lost, and the condition no longer holds: this change took
 * effect, or another one. Read the timer.
 */
export class UnknownOutcome extends TickwheelError {
  override readonly type = "unknown-outcome";
}

/** The answer is not one of tickwheeld: a proxy, or another server. */
export class BadAnswer extends TickwheelError {
  override readonly type = "bad-answer";
}

export interface ProblemBody {
  type: string;
  title: string;
  status: number;
  detail?: string;
  errors?: {pointer?: string; parameter?: string; detail: string}[];
  timer?: Timer;
}

/** An error of the server (RFC 9457). */
export class Problem extends TickwheelError {
  override readonly type: string;
  readonly status: number;
  readonly detail: string;
  /** Every wrong field, by its JSON pointer, or every wrong parameter. */
  readonly errors: NonNullable<ProblemBody["errors"]>;
  /** The timer that the problem is about, where the server sends it. */
  readonly timer: Timer | undefined;

  constructor(readonly body: ProblemBody) {
    const type = body.type.slice(body.type.lastIndexOf("/") + 1);
    super(`${body.status} ${type}: ${body.detail ?? body.title}`);
    this.type = type;
    this.status = body.status;
    this.detail = body.detail ?? "";
    this.errors = body.errors ?? [];
    this.timer = body.timer;
  }
}

/** 422: a field is wrong; `errors` names it. */
export class Invalid extends Problem {}
/** 401 or 403: no valid token, or one without the scope. */
export class Unauthorized extends Problem {}
export class NotFound extends Problem {}
/** 409: the timer is being delivered and can be neither changed nor cancelled. */
export class AlreadyFiring extends Problem {}
/** 409: a live timer with other fields has the key; it is `timer`. */
export class KeyInUse extends Problem {}
/** 412: the timer has another version than `ifVersion`. */
export class VersionMismatch extends Problem {}
/** 410: the timer is fired, cancelled or dead; `timer` has its last state. */
export class Gone extends Problem {}
/** 429, after all retries. */
export class TooMany extends Problem {}
/** A status from 500 on, after all retries. After `io` or `in-doubt` a change may have been made. */
export class Unavailable extends Problem {}

const byType: Record<string, typeof Problem> = {
  "invalid": Invalid, "not-found": NotFound, "already-firing": AlreadyFiring, "key-in-use": KeyInUse,
  "version-mismatch": VersionMismatch, "gone": Gone, "unauthenticated": Unauthorized, "forbidden": Unauthorized,
  "too-many": TooMany, "rate-exceeded": TooMany,
};

/** The error for a problem of the server. */
export function problemOf(body: ProblemBody): Problem {
  const type = body.type.slice(body.type.lastIndexOf("/") + 1);
  return new (byType[type] ?? (body.status >= 500 ? Unavailable : Problem))(body);
}
