// The session's search: made with the session, emptied into its file and its table after a plan.
// Session's thread.
#include "session/session_search.h"

#include "backend/cpu/conv_search.h"
#include "backend/cpu/kernels.h"
#include "base/alloc.h"
#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum base_status eng_session_search_new(struct eng_session *session)
{
    const struct eng_session_options *options = &session->options;
    if (session->kernels == NULL || session->kernels->gemm == NULL || options->no_search) {
        return BASE_OK;
    }
    struct eng_search_options search = {
        .clock = base_clock_real(),
        .isa = session->isa,
        .threads = options->threads,
        .path = options->cache_path != NULL ? options->cache_path : getenv("WALLE_ENGINE_CACHE"),
        .flops = eng_conv_flops_kernel,
    };
    const struct eng_gemm_kernels *kernels = session->kernels->gemm;
    memcpy(&search.flops_ctx, &kernels, sizeof search.flops_ctx); // read only
    return eng_search_new(&search, &session->search);
}

void eng_session_search_begin(struct eng_session *session)
{
    if (session->search != NULL) {
        eng_search_begin(session->search);
        session->search_us = 0;
    }
}

static enum base_status explain(const struct eng_session *session, struct base_error *error)
{
    const char *path = session->options.explain;
    struct base_buffer text;
    base_buffer_init(&text, base_alloc_heap(), 0);
    enum base_status status = eng_search_explain(session->search, &text);
    bool to_output = strcmp(path, "-") == 0;
    FILE *file = status != BASE_OK ? NULL : to_output ? stdout : fopen(path, "w");
    if (status == BASE_OK && file == NULL) {
        status = base_error_set(error, BASE_ERR_IO, "%s: %s", path, strerror(errno));
    }
    if (file != NULL) {
        bool written = fwrite(text.data, 1, text.size, file) == text.size;
        written = (to_output ? fflush(file) : fclose(file)) == 0 && written;
        if (!written) {
            status = base_error_set(error, BASE_ERR_IO, "%s cannot be written", path);
        }
    }
    base_buffer_done(&text);
    return status;
}

enum base_status eng_session_search_end(struct eng_session *session, struct base_error *error)
{
    if (session->search == NULL) {
        return BASE_OK;
    }
    session->search_us = eng_search_spent_us(session->search);
    // A file that cannot be written costs the next session time, nothing else.
    enum base_status saved = eng_search_save(session->search);
    (void)saved;
    return session->options.explain != NULL ? explain(session, error) : BASE_OK;
}
