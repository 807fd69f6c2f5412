// Loads the server code as Vite's development server does.
const [, , vite, path] = process.argv;
const { createServer } = await import(vite);
const server = await createServer({ server: { middlewareMode: true }, appType: "custom", logLevel: "warn" });
const { answer } = await server.ssrLoadModule("/server.js");
console.log(JSON.stringify(await answer(path)));
await server.close();
