"""A scripted model: an OpenAI-compatible endpoint for each mechanism, http://127.0.0.1:PORT/MECHANISM/v1, that answers as it is
told to, well or badly. It keeps what it was asked and checks each request against the script."""
import http.server
import json
import socket
import struct
import threading

USAGE = {'prompt_tokens': 41, 'completion_tokens': 7}


def units(text):
    return len(text.encode('utf-16-le', 'surrogatepass')) // 2


def prefix(text, count):
    """The first so many UTF-16 units."""
    return text.encode('utf-16-le', 'surrogatepass')[:2 * count].decode('utf-16-le', 'ignore')


class Call:
    """One call that is expected: `source` is the text that it shows the first `shown` units of."""

    def __init__(self, mechanism, source, reply, shown=None, match='', **wanted):
        self.mechanism, self.source, self.reply, self.match, self.wanted = mechanism, source, reply, match, wanted
        self.shown, self.made = units(source) if shown is None else shown, 0

    def fits(self, mechanism, text):
        if mechanism != self.mechanism or self.match not in text or prefix(self.source, self.shown) not in text:
            return False
        more = prefix(self.source, self.shown + 2)
        return units(more) <= self.shown or more not in text

    def __str__(self):
        return f'{self.mechanism}: {self.shown} units of {self.source[:60]!r}'


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        mechanism = self.path.split('/')[1]
        reply = self.server.model.asked(mechanism, self.path, self.headers, body)
        try:
            self.give(reply, json.loads(body).get('stream'))
        except OSError:
            self.close_connection = True

    def give(self, reply, stream):
        if reply.get('reset'):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        if 'status' in reply:
            self.send(reply['status'], b'{"error":{"message":"scripted"}}', location=reply.get('location'))
            return
        if 'body' in reply:
            body = reply['body'] if isinstance(reply['body'], bytes) else reply['body'].encode()
            self.send(200, body)
            return
        message = {'role': 'assistant', 'content': reply.get('text')}
        if 'reasoning' in reply:
            message['reasoning_content'] = reply['reasoning']
        data = (self.as_stream if stream or reply.get('stream') else self.as_object)(message, reply.get('finish', 'stop'), reply.get('usage', USAGE))
        if reply.get('hang'):
            self.send(200, data, upto=len(data) // 2 if 'text' in reply else 0)
            self.rfile.read(1)  # until the other side gives up
            self.close_connection = True
        elif reply.get('drip'):
            self.send(200, data, upto=0)
            for byte in data:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                if self.server.model.stopped.wait(reply['drip']):
                    break
            self.close_connection = True
        else:
            if 'gate' in reply:
                reply['gate'].wait(60)
            self.send(200, data)

    @staticmethod
    def as_object(message, finish, usage):
        return json.dumps({'choices': [{'index': 0, 'message': message, 'finish_reason': finish}], **({'usage': usage} if usage else {})}).encode()

    @staticmethod
    def as_stream(message, finish, usage):
        text = message['content'] or ''
        half = len(text) // 2
        deltas = [{'choices': [{'index': 0, 'delta': {'content': part}, 'finish_reason': None}]} for part in (text[:half], text[half:])]
        deltas.append({'choices': [{'index': 0, 'delta': {}, 'finish_reason': finish}], **({'usage': usage} if usage else {})})
        return b''.join(b'data: ' + json.dumps(delta).encode() + b'\r\n\r\n' for delta in deltas) + b'data: [DONE]\n\n'

    def send(self, status, data, upto=None, location=None):
        self.send_response(status)
        if location:
            self.send_header('Location', location)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data if upto is None else data[:upto])
        self.wfile.flush()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # the other side gave up, as it may


class Model:
    def __init__(self):
        self.server = Server(('127.0.0.1', 0), Handler)
        self.server.model = self
        self.port = self.server.server_address[1]
        self.lock, self.stopped = threading.Condition(), threading.Event()
        self.script, self.faults, self.requests = [], [], []
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, mechanism):
        return f'http://127.0.0.1:{self.port}/{mechanism}/v1'

    def play(self, script):
        """From here on these calls are expected, each once."""
        with self.lock:
            self.script, self.faults, self.requests = script, [], []

    def asked(self, mechanism, path, headers, body):
        with self.lock:
            try:
                request = json.loads(body)
                texts = [message['content'] for message in request['messages']]
            except (ValueError, KeyError) as error:
                self.faults.append(f'{mechanism}: a request that is none: {error}: {body[:200]!r}')
                return {'status': 400}
            self.requests.append((mechanism, dict(headers), request))
            call = next((call for call in self.script if not call.made and any(call.fits(mechanism, text) for text in texts)), None)
            if call is None:
                self.faults.append(f'{mechanism}: a call that is not expected, of {texts[-1][:300]!r}')
                return {'status': 500}
            call.made += 1
            self.lock.notify_all()
            if path != f'/{mechanism}/v1/chat/completions':
                self.faults.append(f'{call}: the path is {path}')
            for key, value in {'max_tokens': call.wanted.get('maxTokens'), 'model': call.wanted.get('model'), 'temperature': 0}.items():
                if value is not None and request.get(key) != value:
                    self.faults.append(f'{call}: {key} is {request.get(key)!r}, expected {value!r}')
            if call.wanted.get('authorization') is False and 'Authorization' in headers:
                self.faults.append(f'{call}: it has an authorization')
            return call.reply

    def wait_for(self, calls, seconds):
        """Until these are made, or it is of no use to wait."""
        with self.lock:
            self.lock.wait_for(lambda: self.faults or all(call.made for call in calls if not call.reply.get('refused')), seconds)

    def missing(self):
        """What was wrong so far, and which calls were not made."""
        with self.lock:
            return self.faults + [f'{call}: the call was not made' for call in self.script if not call.made and not call.reply.get('refused')]

    def stop(self):
        self.stopped.set()
        self.server.shutdown()
        self.server.server_close()
