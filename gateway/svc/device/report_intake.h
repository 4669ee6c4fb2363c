// Reports on their way to the disk.
#ifndef GW_REPORT_INTAKE_H
#define GW_REPORT_INTAKE_H

#include "svc/core_private.h"
#include "wire/report.h"

struct gw_report_sender {
    uint16_t tenant;
    bool proven;   // the request showed who it is
    int ok_status; // of the answer to it
};

// Worker's thread: hands a checked report to the writer thread and finishes the exchange with
// `ok_status` once it is durable, or with a problem. Texts are borrowed until then.
void gw_report_submit(struct gw_worker *worker, struct gw_exchange *exchange,
                      const struct wire_report *report, const struct gw_report_sender *sender);

#endif
