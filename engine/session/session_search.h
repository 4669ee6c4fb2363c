// The session's search for algorithms (search/search.h).
#ifndef ENG_SESSION_SESSION_SEARCH_H
#define ENG_SESSION_SESSION_SEARCH_H

#include "search/search.h"
#include "session/session.h"

// Leaves session->search NULL when the session has no fast kernels or no_search. NOMEM.
BASE_NODISCARD enum base_status eng_session_search_new(struct eng_session *session);
// Around the planning of a segment; begin before a session's first only. IO: the table asked for
// cannot be written.
void eng_session_search_begin(struct eng_session *session);
BASE_NODISCARD enum base_status eng_session_search_end(struct eng_session *session,
                                                       struct base_error *error);

#endif
