// Standalone Asio, included in one way only. Internal to src/net.
#pragma once
#ifndef ASIO_STANDALONE
#define ASIO_STANDALONE
#endif
#ifndef ASIO_NO_DEPRECATED
#define ASIO_NO_DEPRECATED
#endif
// TSan does not know fences, and needs none of Asio's: its handlers run under its own mutex.
#if defined(__SANITIZE_THREAD__) && !defined(ASIO_DISABLE_FENCED_BLOCK)
#define ASIO_DISABLE_FENCED_BLOCK
#endif
#include <asio.hpp>
#include <asio/ssl.hpp>
