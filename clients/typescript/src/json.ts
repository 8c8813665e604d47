import {randomUUID} from "node:crypto";

/*
 * JSON with whole numbers of any size: a number of JavaScript is exact up to 2^53 - 1, so a larger integer is a bigint.
 * JSON.parse gives no access to the digits before Node 21. So integers that do not fit are put into strings that begin
 * with a mark, which is random for each text, and taken out of them again.
 */

const tokens = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
const manyDigits = /\d{16}/;

/** As JSON.parse; an integer beyond Number.MAX_SAFE_INTEGER is a bigint. */
export function parseJson(text: string): unknown {
  if (!manyDigits.test(text)) return JSON.parse(text);
  const mark = `${randomUUID()}:`;
  const marked = text.replace(tokens, (token) =>
    /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${mark}${token}"` : token);
  return JSON.parse(marked, (_, value: unknown) =>
    typeof value === "string" && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value);
}

/** As JSON.stringify; a bigint is written with all its digits. */
export function formatJson(value: unknown): string {
  let mark = "";
  const text = JSON.stringify(value, (_, one: unknown) => {
    if (typeof one !== "bigint") return one;
    mark ||= `${randomUUID()}:`;
    return mark + one.toString();
  });
  return mark ? text.replace(new RegExp(`"${mark}(-?\\d+)"`, "g"), "$1") : text;
}
