/* link.h - joins the GPUs of several ranks by an engine of their own (NCCL), whose key goes over the ranks' carrier. */
#ifndef BACKEND_RANKS_LINK_H
#define BACKEND_RANKS_LINK_H
#include "backend/backend.h"
#include "backend/ranks/ranks.h"
#include "base/os.h"

/* All ranks call it, each with its backend opened and described as `here`; all get the same answer. Where they compute
 * on processors there is nothing to do but to see that all of them do. */
enum status ranks_link(struct ranks *r, struct backend *b, const struct target *here, struct os *os,
                       struct err *err);

#endif
