import type {Duration} from "./models.js";

const units: Record<string, number> = {ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000};

/** The milliseconds of a duration, for time-outs of this side; what the service will refuse counts as none. */
export function milliseconds(value: Duration): number {
  const parts = checked(value).matchAll(/(\d+)(ms|[smhdw])/g);
  return [...parts].reduce((sum, [, number, unit]) => sum + Number(number) * (units[unit ?? ""] ?? 0), 0);
}

/** The duration; throws if it is none, such as a number. */
export function checked(value: unknown): string {
  if (typeof value !== "string") throw new TypeError(`${String(value)} is no duration: write a unit, as in "30s"`);
  return value;
}

/** The milliseconds of a duration as digits; throws for what the service would refuse. */
export function exactly(value: unknown): string {
  const text = checked(value);
  // Each unit once, the larger before the smaller.
  if (!/^(?=.)(\d+w)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?$/.test(text))
    throw new RangeError(`"${text}" is no duration: write whole numbers with units, as in "90s" or "1h30m"`);
  return [...text.matchAll(/(\d+)(ms|[smhdw])/g)].reduce(
    (sum, [, number, unit]) => sum + BigInt(number ?? 0) * BigInt(units[unit ?? ""] ?? 0), 0n).toString();
}
