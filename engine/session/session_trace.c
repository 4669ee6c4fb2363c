// What the last run spent its time on: events for tools, and Chrome trace JSON.
//
// Called after a run, on the session's thread.
#include "base/alloc.h"
#include "base/buffer.h"
#include "base/check.h"
#include "base/os/output_file.h"
#include "session/segment.h"

#include <stdio.h>
#include <string.h>

#define TRACE_BYTES_MAX ((size_t)1 << 30)

size_t eng_session_event_count(const struct eng_session *session)
{
    size_t count = 0;
    for (uint32_t i = 0; session->options.trace && i < session->segment_count; i++) {
        count += session->segments[i]->exec.step_count;
    }
    return count;
}

bool eng_session_event_at(const struct eng_session *session, size_t index,
                          struct eng_session_event *out_event)
{
    for (uint32_t i = 0; session->options.trace && i < session->segment_count; i++) {
        const struct eng_segment *segment = session->segments[i];
        if (index >= segment->exec.step_count) {
            index -= segment->exec.step_count;
            continue;
        }
        base_assert(segment->events != NULL);
        const struct eng_graph *graph = session->model->graph;
        const struct eng_step *step = &segment->exec.steps[index];
        uint32_t node = step->command->node;
        *out_event = (struct eng_session_event){
            .node = node < graph->node_count ? &graph->nodes[node] : NULL,
            .step = step,
            .time = segment->events[index],
        };
        return true;
    }
    return false;
}

// `text` as the inside of a JSON string.
static enum base_status add_escaped(struct base_buffer *out, const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\') {
            BASE_TRY(base_buffer_printf(out, "\\%c", c));
        } else if (c < 0x20) {
            BASE_TRY(base_buffer_printf(out, "\\u%04x", c));
        } else {
            BASE_TRY(base_buffer_add(out, at, 1));
        }
    }
    return BASE_OK;
}

static enum base_status add_shapes(struct base_buffer *out, const struct eng_step *step,
                                   const uint32_t *tensors, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char text[96] = "-";
        if (tensors[i] != ENG_NONE) {
            (void)eng_desc_text(&step->program->tensors[tensors[i]].desc, text, sizeof text);
        }
        BASE_TRY(base_buffer_printf(out, "%s%s", i == 0 ? "" : " ", text));
    }
    return BASE_OK;
}

static enum base_status add_event(struct base_buffer *out, const struct eng_session_event *event,
                                  bool is_first)
{
    const struct eng_step *step = event->step;
    BASE_TRY(base_buffer_printf(out, "%s{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":%llu,\"dur\":%llu",
                                is_first ? "" : ",\n", (unsigned long long)event->time.begin_us,
                                (unsigned long long)event->time.duration_us));
    BASE_TRY(
        base_buffer_printf(out, ",\"cat\":\"%s\",\"name\":\"", eng_atomic_text(step->command->op)));
    const char *name = event->node != NULL ? event->node->name : "";
    BASE_TRY(add_escaped(out, name[0] != '\0' ? name : eng_atomic_text(step->command->op)));
    BASE_TRY(base_buffer_printf(out, "\",\"args\":{\"op\":\""));
    BASE_TRY(add_escaped(out, event->node != NULL ? event->node->op : ""));
    BASE_TRY(base_buffer_printf(out, "\",\"kernel\":\""));
    BASE_TRY(add_escaped(out, step->kernel != NULL ? step->kernel : ""));
    BASE_TRY(base_buffer_printf(out, "\",\"inputs\":\""));
    BASE_TRY(add_shapes(out, step, step->command->inputs, step->command->input_count));
    BASE_TRY(base_buffer_printf(out, "\",\"outputs\":\""));
    BASE_TRY(add_shapes(out, step, step->command->outputs, step->command->output_count));
    return base_buffer_printf(out, "\"}}");
}

static enum base_status add_events(const struct eng_session *session, struct base_buffer *out)
{
    BASE_TRY(base_buffer_printf(out, "{\"traceEvents\":[\n"));
    size_t count = eng_session_event_count(session);
    for (size_t i = 0; i < count; i++) {
        struct eng_session_event event;
        if (eng_session_event_at(session, i, &event)) {
            BASE_TRY(add_event(out, &event, i == 0));
        }
    }
    return base_buffer_printf(out, "\n],\"displayTimeUnit\":\"ms\"}\n");
}

enum base_status eng_session_trace(const struct eng_session *session, const char *path,
                                   struct base_error *error)
{
    if (!session->options.trace || !session->has_run) {
        return base_error_set(error, BASE_ERR_CONFLICT, "%s",
                              session->options.trace ? "there was no run to trace"
                                                     : "the session does not trace");
    }
    struct base_buffer text;
    base_buffer_init(&text, base_alloc_heap(), TRACE_BYTES_MAX);
    enum base_status status = add_events(session, &text);
    if (status == BASE_OK) {
        status = base_output_write(path, text.data, text.size, error);
    }
    base_buffer_done(&text);
    return status;
}
