"""Reads requests of OTLP in JSON, one a line, with OpenTelemetry's own message types, and prints what they read.

Run by the interpreter of an environment that has the package opentelemetry-proto. OTLP writes ids in hexadecimal where
the JSON of protobuf has base64; that is changed before the message is read. A field that OTLP does not have is an error.
"""

import base64
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

IDS = ("traceId", "spanId", "parentSpanId")


def with_base64(value):
    if isinstance(value, list):
        return [with_base64(one) for one in value]
    if isinstance(value, dict):
        return {name: base64.b64encode(bytes.fromhex(one)).decode() if name in IDS else with_base64(one)
                for name, one in value.items()}
    return value


def plain(attributes):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def shown(span):
    return {"trace": span.trace_id.hex(), "id": span.span_id.hex(), "parent": span.parent_span_id.hex(),
            "name": span.name, "kind": span.kind, "start": span.start_time_unix_nano, "end": span.end_time_unix_nano,
            "attributes": plain(span.attributes), "status": span.status.code, "message": span.status.message,
            "flags": span.flags, "links": [[link.trace_id.hex(), link.span_id.hex()] for link in span.links]}


for line in sys.stdin:
    request = json_format.Parse(json.dumps(with_base64(json.loads(line))),
                                trace_service_pb2.ExportTraceServiceRequest())
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            print(json.dumps({"resource": plain(resource.resource.attributes), "scope": scope.scope.name,
                              "spans": [shown(span) for span in scope.spans]}))
