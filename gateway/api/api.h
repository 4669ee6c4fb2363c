// The operator API: JSON handlers of /api/v1 over the gateway's core, and the web console at `/`.
//
// A handler runs on the worker's thread: it parses and checks the request, then posts a control
// call whose `run` does the work on the control thread and fills the reply; `done`, back on the
// worker, finishes the exchange. Everything a request needs lives in its exchange's arena.
// docs/API.md describes the resources.
#ifndef GW_API_H
#define GW_API_H

#include "svc/control.h"

#define GW_API_BODY_MAX       (256u * 1024) // of a JSON body; blobs have the transport's limit
#define GW_API_DEPTH_MAX      12u           // nested arrays and objects
#define GW_API_PAGE_DEFAULT   100u
#define GW_API_SEGMENTS_MAX   6u
#define GW_API_SEGMENT_MAX    128u  // bytes of one decoded path segment
#define GW_API_MISSING_MAX    4096u // blobs named in one 409
#define GW_API_VIEWS_BATCH    16u   // views fetched at a time for a list
#define GW_API_LOG_SLICES_MAX 4096u // slices in one page of a log; it ends after the line with more

// Seeds the JSON library's hash tables, and sets the API and the console into the core. Before
// threads are started and before the first worker is made.
void gw_api_install(struct gw_core *core);

#endif
