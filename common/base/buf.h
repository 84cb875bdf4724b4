/* The growing buffer is part of the contract, as lists of events are built in it. */
#pragma once
#include "ctxpipe/buf.h"
