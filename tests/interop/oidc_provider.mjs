// An authorization server that we did not write (npm oidc-provider), with a person who answers as POST /person says.
// Run as: node oidc_provider.mjs FOLDER_OF_ITS_NODE_MODULES CLIENT_ID. Its first line on stdout is its port; it ends
// with its stdin.
import { createServer } from 'node:http'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const [folder, clientId] = process.argv.slice(2)
const { default: Provider } = await import(pathToFileURL(path.join(folder, 'node_modules/oidc-provider/lib/index.js')))

const person = { allows: true, later: 0 }
const clock = Date.now
// Tokens end when the test says so, and nobody has to wait for it.
Date.now = () => clock() + person.later * 1000

function textOf(request) {
  return new Promise((resolve) => {
    let text = ''
    request.on('data', (part) => { text += part })
    request.on('end', () => resolve(text))
  })
}

async function answer(provider, request, response) {
  const { uid, params, session } = await provider.interactionDetails(request, response)
  if (!person.allows) {
    const said = { error: 'access_denied', error_description: 'the person said no' }
    return provider.interactionFinished(request, response, said, { mergeWithLastSubmission: false })
  }
  const grant = new provider.Grant({ accountId: session?.accountId ?? 'somebody', clientId: params.client_id })
  grant.addOIDCScope(params.scope)
  const said = { login: { accountId: 'somebody' }, consent: { grantId: await grant.save() }, uid }
  return provider.interactionFinished(request, response, said, { mergeWithLastSubmission: false })
}

const server = createServer()
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address()
  const provider = new Provider(`http://127.0.0.1:${port}`, {
    clients: [{
      client_id: clientId,
      application_type: 'native',
      token_endpoint_auth_method: 'none',
      response_types: ['code'],
      grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
      redirect_uris: ['http://127.0.0.1/callback'],
    }],
    cookies: { keys: ['for tests only'] },
    features: { devInteractions: { enabled: false }, deviceFlow: { enabled: true }, revocation: { enabled: true } },
    interactions: { url: (_, { uid }) => `/interaction/${uid}` },
    ttl: { AccessToken: 3600, RefreshToken: 86400, DeviceCode: 600, Grant: 86400 * 30, Session: 3600, Interaction: 600 },
  })
  const serve = provider.callback()
  server.on('request', async (request, response) => {
    if (request.url === '/person') {
      Object.assign(person, JSON.parse(await textOf(request)))
      response.end()
    } else if (request.url.startsWith('/interaction/')) {
      answer(provider, request, response).catch((error) => { response.statusCode = 500; response.end(String(error)) })
    } else {
      serve(request, response)
    }
  })
  console.log(port)
})
process.stdin.on('end', () => process.exit(0)).resume()
