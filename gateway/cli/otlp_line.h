// A record of the tunnel as a line of OTLP in JSON (opentelemetry.proto.collector.logs.v1,
// ExportLogsServiceRequest), which collectors read from files. One thread.
//
//   resource    service.name: the task; device.id
//   scope       the upload; its version is that of the schema
//   log record  when the device says and when the gateway had it; the record as body; walle.at,
//               walle.class, walle.epoch, walle.seq
//
// What a device declared lost is a record of severity WARN, of the service "walle", with walle.lost
// and walle.reason.
#ifndef OTLP_LINE_H
#define OTLP_LINE_H

#include <jansson.h>

#define OTLP_DEPTH_MAX 40 // of a record's JSON; what is deeper is a text

// Of an item of /api/v1/tunnel/records; a new reference. NULL: no memory.
json_t *otlp_line_new(const json_t *item);

#endif
