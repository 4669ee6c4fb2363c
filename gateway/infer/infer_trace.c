// The words of infer_trace.h. infer_exchange.c calls when a call's reply is filled, before it goes:
// so every protocol has them. The times are those that the run measured (infer_run.c); a call that
// was refused or came from the cache has none.
#include "infer/infer_trace.h"

#include "infer/trace/trace_context.h"
#include "infer/infer_private.h"
#include "svc/reply.h"

#include <stdio.h>
#include <string.h>

#define TIMING_MAX 96

static void add_header(struct gw_infer_exchange *self, struct base_str name, const char *text)
{
    const char *copy = base_arena_text(self->exchange->arena, text, strlen(text));
    if (copy != NULL) { // else it goes without
        gw_reply_header(&self->exchange->reply, name, base_str_of(copy));
    }
}

void gw_infer_trace(struct gw_infer_exchange *self)
{
    const struct gw_request *request = &self->exchange->request;
    const struct gw_infer_ticket *ticket = &self->ticket;
    struct gw_trace_context context;
    char parent[GW_TRACE_PARENT_BYTES + 1];
    char timing[TIMING_MAX];
    bool known = ticket->result.model.size > 0; // else nobody says that there is such a model
    if (request->trace_parent.size == 0 ||
        gw_trace_context_read(request->trace_parent, &context) != BASE_OK) {
        return;
    }
    gw_trace_context_write(&context, gw_infer_span(self->service), parent);
    (void)snprintf(timing, sizeof(timing), "queue;dur=%.3f, run;dur=%.3f",
                   (double)ticket->queue_us / 1000, (double)ticket->run_us / 1000);
    add_header(self, BASE_STR("traceparent"), parent);
    add_header(self, BASE_STR("server-timing"), timing);
    if (request->trace_state.size > 0 && request->trace_state.size <= GW_TRACE_STATE_BYTES_MAX) {
        gw_reply_header(&self->exchange->reply, BASE_STR("tracestate"), request->trace_state);
    }
    base_log_info(
        self->service->log, "infer",
        "trace=%s span=%.16s parent=%s model=%.*s version=%.*s status=%s queue_us=%llu "
        "run_us=%llu rows=%u",
        context.trace, parent + 36, context.span, (int)(known ? ticket->result.model.size : 1),
        known ? ticket->result.model.data : "-", (int)(known ? ticket->result.version.size : 1),
        known ? ticket->result.version.data : "-", base_status_name(ticket->status),
        (unsigned long long)ticket->queue_us, (unsigned long long)ticket->run_us,
        ticket->wait.rows);
}
