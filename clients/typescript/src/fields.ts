import {checked} from "./duration.js";
import type {Create, Instant, Patch, Time} from "./models.js";

export const at = (value: Instant): string | number => (value instanceof Date ? value.toISOString() : value);

/** Members that are durations, of a timer itself and of its objects. */
const durations: Record<string, string[]> = {
  "": ["after", "every", "ack_timeout"], retry: ["base", "cap", "timeout", "give_up_after"], late: ["drop_after"],
  spread: ["window"], debounce: ["for", "at_most"],
};

function checkDurations(given: Record<string, unknown>): void {
  for (const [name, members] of Object.entries(durations)) {
    const place = (name ? given[name] : given) as Record<string, unknown> | null | undefined;
    for (const member of members) if (place?.[member] != null) checked(place[member]);
  }
}

/** The fields of a timer as the API has them. */
export function fields(given: Create | Patch | Time): Record<string, unknown> {
  const made: Record<string, unknown> = {...given};
  checkDurations(made);
  for (const name of ["at", "until"])
    if (made[name] instanceof Date) made[name] = at(made[name]);
  if (made.body instanceof Uint8Array) {
    made.body_base64 = Buffer.from(made.body).toString("base64");
    delete made.body;
  }
  return made;
}
