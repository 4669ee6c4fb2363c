// Names that a task's scripts upload to, against those that its task.json declares.
#ifndef TASK_UPLOADS_H
#define TASK_UPLOADS_H

#include "cli/task/task_source.h"

#include "pipeline/pipeline.h"
#include "tunnel/schema/schema.h"
#include "wire/declaration.h"

// Warns, on standard error, of each call of walle.data.upload in the source's scripts whose name
// stands there as a literal and is not declared: a device drops what goes there, and its run ends
// well. A name that is computed is not known here, and nothing is said of it.
// Warns likewise of each script that calls walle.cloud.infer, by the names in its bytecode, where
// task.json has no "leaves".
void task_uploads_warn(const struct task_source *source);
// ... and of one name that a run has used.
void task_uploads_warn_of(const struct wire_declaration *declaration, struct base_str name);
// Would the gateway refuse the record, and why? It checks each against the schema of its upload.
bool task_upload_refused(const struct wire_upload_record *upload, char why[GW_SCHEMA_WHY_MAX + 1]);

#endif
