// The Community Solid Server has no option for the address to listen on: every listen() on a port
// is bound to loopback. The server also ends when the process that is to be watched is gone.
const net = require('net');

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (...given) {
  const [first] = given;
  if (typeof first === 'number' || (typeof first === 'string' && /^\d+$/.test(first))) {
    const callbacks = given.filter((one) => typeof one === 'function');
    return listen.call(this, { port: Number(first), host: '127.0.0.1' }, ...callbacks);
  }
  if (first && typeof first === 'object' && first.port !== undefined) {
    first.host = '127.0.0.1';
  }
  return listen.apply(this, given);
};

const watched = Number(process.env.WATCHED_PID);
setInterval(() => {
  try {
    process.kill(watched, 0);
  } catch {
    process.exit(0);
  }
}, 1000).unref();
